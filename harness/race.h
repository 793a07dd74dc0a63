// Proof that a schedule with its plan is free of races, before it runs.
//
// Every two accesses to the same bytes, one of them a write, must be ordered by program order on a
// lane or by waits, and in the Program's direction; every read must see the value the Program
// means: the last write of its bytes comes from an op on the same tensor and slice. Allocation and
// release of a tensor count as writes of its bytes on the compute lane, so lifetimes are proven
// too; a done counts as a read of what its op wrote (schedule.h). Looks at two steps, of each segment the first and last iterations (as many as slots take to
// repeat, at least three), never at all of them.
#pragma once

#include <optional>
#include <string>

#include "harness/plan.h"
#include "harness/schedule.h"

namespace spillway {

struct Race {
  std::string message;  // both accesses: segment, iteration, lane, op, tensor and bytes
};

// The first violation found, or nothing. A schedule that deadlocks is a violation as well.
std::optional<Race> find_race(const Schedule& schedule, const Plan& plan);

// Removes every wait that others imply. Afterwards taking any single one out makes find_race()
// fail.
Schedule drop_implied_waits(Schedule schedule, const Plan& plan);

// What drop_implied_waits() leaves, with what find_race() says of it: in one look at who touches
// what, which does not depend on waits.
struct Proven {
  Schedule schedule;
  std::optional<Race> race;
};
Proven drop_and_prove(Schedule schedule, const Plan& plan);

// The schedule as it stands, with what find_race() says of it.
Proven prove(Schedule schedule, const Plan& plan);

}  // namespace spillway
