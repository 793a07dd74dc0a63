// Times of every op of a step, taken by events around it, and what they say: spans, waits, and
// whether a host slot was read before it was written.
#pragma once

#include <array>
#include <vector>

#include "harness/bound_program.h"
#include "harness/cuda/issue.h"
#include "harness/cuda/objects.h"
#include "harness/stamps.h"
#include "harness/trace.h"

namespace spillway {

// Where a step of a lane is in a training step.
struct LanePlace {
  size_t segment = 0;
  int64_t iteration = 0;
  Issue issue;
};

struct TimedStep {
  // In the order of issue, seconds from the step's origin on. A lane waits from where its last op or
  // wait ended to where the awaited op did.
  std::vector<Span> spans;
  // How often a copy from host began, or compute passed the done of a copy to host, before the write
  // that this needs was over.
  int64_t stale_slots = 0;
};

class Timestamps {
 public:
  // Makes two events for every op that a training step runs. What is given must outlive this.
  Timestamps(Gpu& gpu, const BoundProgram& bound, const Program& program,
             const std::vector<std::vector<Issue>>& orders);

  // Of a place whose step runs an op.
  CUevent_st* begin(const LanePlace& place) const;
  CUevent_st* end(const LanePlace& place) const;

  // Once all of training step `step` has run. Follows `stamps` through it in the order of its times.
  TimedStep read(Gpu& gpu, CUevent_st* origin, int64_t step, SlotStamps& stamps) const;

 private:
  struct Body {
    size_t first = 0, runs = 0;  // pairs before this segment, pairs of an iteration
    std::array<std::vector<size_t>, lane_count> number;  // of each lane step that runs an op
  };
  size_t pair_of(const LanePlace& place) const;

  const BoundProgram& bound_;
  const Program& program_;
  const std::vector<std::vector<Issue>>& orders_;
  std::vector<Body> bodies_;
  std::vector<GpuEvent> events_;  // begin, end, begin, end, ...
};

}  // namespace spillway
