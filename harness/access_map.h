// Who touches which bytes, in one linear order of events: finds pairs that must be ordered and
// reads that see a wrong value. Knows nothing of clocks.
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

// Two accesses of different lanes to common bytes, one of them a write, next to each other in the
// linear order: what lies further apart is ordered if all neighbours are.
struct Conflict {
  int earlier = 0, later = 0;  // indices into AccessMap::accesses
};

struct AccessMap {
  std::vector<Access> accesses;
  std::vector<Conflict> conflicts;  // by later event
  // The first access that breaks the Program's meaning in this order: out of the Program's
  // direction, a value overwritten by another tensor or never written, bytes outside the arena.
  std::optional<std::string> violation;
};

AccessMap map_accesses(const Schedule& schedule, const Plan& plan, const Unrolled& unrolled);

// "write of \"x\" slice 2 by op \"y\", segment \"z\", iteration 3 of step 0, lane compute".
std::string describe(const Schedule& schedule, const Plan& plan, const Unrolled& unrolled,
                     const Access& access);

}  // namespace spillway
