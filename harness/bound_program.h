// A schedule made ready to run: ops looked up, operands as buffers, names registered.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "harness/arenas.h"
#include "harness/ops.h"
#include "harness/schedule.h"
#include "nvtx/ranges.h"

namespace spillway {

// One position on a lane. Buffers are this lane's own; their addresses follow the iteration.
struct BoundStep {
  const LaneStep* step = nullptr;
  const Op* op = nullptr;
  const OpInfo* info = nullptr;
  std::vector<Buffer> inputs, outputs;
  std::vector<int> write_backs;  // copies to host that this done confirms (confirmed_at)
  RegisteredRange range;

  void point_at(const Arenas& arenas, int64_t iteration);
};

struct BoundSegment {
  std::array<std::vector<BoundStep>, lane_count> lanes;
  // Lane steps before this segment in one training step, per lane.
  std::array<int64_t, lane_count> first{};
  RegisteredRange range;
};

struct BoundProgram {
  std::vector<BoundSegment> segments;
  std::array<int64_t, lane_count> steps{};  // lane steps of one training step
  RegisteredRange range;

  // Lane steps that lane `wait.on` has finished, since the first training step, once the wait is
  // over.
  int64_t target(const Wait& wait, size_t segment, int64_t iteration, int64_t training_step) const;
};

BoundProgram bind(const Schedule& schedule, const Arenas& arenas);

}  // namespace spillway
