// Hands a training step to the streams of a device, segment by segment, exactly as the schedule has
// it. Never waits for the device.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "harness/bound_program.h"
#include "harness/cuda/chosen_products.h"
#include "harness/cuda/collectives.h"
#include "harness/cuda/issue.h"
#include "harness/cuda/kernel.h"
#include "harness/cuda/memory.h"
#include "harness/cuda/timestamps.h"

namespace spillway {

inline constexpr std::byte unset_byte{0xff};  // 0xffff and 0xffffffff: NaN in bf16 and in f32

using KernelOf = const CudaKernel* (*)(OpKind);

struct WalkOptions {
  KernelOf kernels = cuda_kernel;
  ChosenProducts* products = nullptr;          // null: kernels compute all
  const Communicators* collectives = nullptr;  // null: kernels carry them out
  int64_t copies_made = 1;                     // of every host copy, one after the other
  bool poison = false;                         // fill tensors that come and go
  bool timestamps = true;
};

class StreamWalk {
 public:
  StreamWalk(Gpu& gpu, const Schedule& schedule, const Arenas& arenas, StepWords* device_words,
             const WalkOptions& options);

  // Before the first step: finds out how each product is computed, over the arenas' contents.
  void prepare_products();
  // Issues all iterations. Throws RunError naming segment, iteration and op where the device
  // refuses.
  void issue_segment(size_t segment);
  // The same as a graph that is launched on the compute stream.
  GpuGraph capture_segment(size_t segment);

  CUstream_st* stream(Lane lane) const { return streams_[index_of(lane)].get(); }
  bool uses(Lane lane) const { return bound_.steps[index_of(lane)] > 0; }
  // Bytes that host copies of this segment have last been issued for.
  int64_t bytes_moved(size_t segment, Lane lane) const { return moved_[segment][index_of(lane)]; }
  const BoundProgram& bound() const { return bound_; }
  const Timestamps* times() const { return times_ ? &*times_ : nullptr; }

 private:
  void issue(const LanePlace& place);
  void run_op(BoundStep& step, const LanePlace& place);
  void allocate(const std::vector<TensorId>& tensors);
  void release(const std::vector<TensorId>& tensors);
  void poison(TensorId id);
  bool lane_in(size_t segment, Lane lane) const {
    return !bound_.segments[segment].lanes[index_of(lane)].empty();
  }
  // Null: nobody waits for this step.
  CUevent_st* event_of(size_t segment, Lane lane, int step) const {
    return events_[segment][index_of(lane)][index_of(step)].get();
  }

  Gpu& gpu_;
  const Schedule& schedule_;
  Arenas arenas_;
  StepWords* words_;
  WalkOptions options_;
  BoundProgram bound_;
  std::vector<std::vector<Issue>> orders_;  // per segment
  std::array<GpuStream, lane_count> streams_;
  std::vector<std::array<std::vector<GpuEvent>, lane_count>> events_;  // [segment][lane][step]
  GpuEvent fork_;                                                      // of captures
  std::array<GpuEvent, lane_count> join_;
  std::vector<std::array<int64_t, lane_count>> moved_;
  std::optional<Timestamps> times_;
};

}  // namespace spillway
