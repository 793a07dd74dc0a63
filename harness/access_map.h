// Who touches which bytes, in one linear order of events: finds what must be over before each event
// begins, and reads that see a wrong value. Knows nothing of clocks and waits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/plan.h"
#include "harness/unroll.h"

namespace spillway {

enum class AccessKind : uint8_t { initial, allocate, read, write, release };

struct Access {
  AccessKind kind = AccessKind::initial;
  int event = -1;  // -1: before everything
  TensorId tensor = no_tensor;
  int64_t first_slice = 0, end_slice = 0;
};

struct AccessMap {
  // Per event: of each other lane, how many events must be over before it begins, since the last of
  // them touches bytes that it touches too, and one of both writes. Events that only lie further
  // apart are ordered if all these are.
  std::vector<Clock> needed;
  // The first access that breaks the Program's meaning in this order: out of the Program's
  // direction, a value overwritten by another tensor or never written, bytes outside the arena.
  std::optional<std::string> violation;
};

AccessMap map_accesses(const Schedule& schedule, const Plan& plan, const Unrolled& unrolled);

// "write of \"x\" slice 2 by op \"y\", segment \"z\", iteration 3 of step 0, lane compute".
std::string describe(const Schedule& schedule, const Plan& plan, const Unrolled& unrolled,
                     const Access& access);

// Two accesses of these events to common bytes, one of them a write, described.
std::string describe_conflict(const Schedule& schedule, const Plan& plan, const Unrolled& unrolled,
                              int earlier_event, int later_event);

}  // namespace spillway
