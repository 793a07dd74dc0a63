// An event is recorded again in every iteration: a wait means the record that was issued last.
#include "harness/cuda/walk.h"

#include "harness/error.h"
#include "harness/workspaces.h"
#include "nvtx/ranges.h"

namespace spillway {
namespace {

constexpr std::array side_lanes = {Lane::d2h, Lane::h2d, Lane::collective};

}  // namespace

StreamWalk::StreamWalk(Gpu& gpu, const Schedule& schedule, const Arenas& arenas,
                       StepWords* device_words, const WalkOptions& options)
    : gpu_(gpu),
      schedule_(schedule),
      arenas_(arenas),
      words_(device_words),
      options_(options),
      bound_(bind(schedule, arenas)),
      moved_(schedule.segments.size()) {
  fork_ = make_event(gpu, EventUse::order);
  for (size_t lane = 0; lane < lane_count; ++lane) {
    const bool used = lane == index_of(Lane::compute) || bound_.steps[lane] > 0;
    if (!used) continue;
    streams_[lane] = make_stream(gpu);
    join_[lane] = make_event(gpu, EventUse::order);
  }
  for (const SegmentSchedule& segment : schedule.segments) {
    orders_.push_back(issue_order(segment));
    auto& events = events_.emplace_back();
    const std::vector<std::vector<bool>> awaited = awaited_steps(segment);
    for (size_t lane = 0; lane < lane_count; ++lane)
      for (const bool wanted : awaited[lane])
        events[lane].push_back(wanted ? make_event(gpu, EventUse::order) : GpuEvent());
  }
  if (options.timestamps) times_.emplace(gpu, bound_, schedule.program, orders_);
}

// An op asks for the same products in all iterations.
void StreamWalk::prepare_products() {
  if (options_.products == nullptr) return;
  std::vector<ProductCall> calls;
  for (BoundSegment& segment : bound_.segments) {
    for (BoundStep& step : segment.lanes[index_of(Lane::compute)]) {
      if (step.step->kind != StepKind::run || !is_dense_product(*step.op)) continue;
      step.point_at(arenas_, 0);
      calls.push_back(
          {{step.op, step.inputs, step.outputs, -1}, workspace_of(*step.step, *step.op, arenas_)});
    }
  }
  options_.products->prepare(calls, stream(Lane::compute));
}

void StreamWalk::issue_segment(size_t segment) {
  const NvtxRange range(bound_.segments[segment].range, 0);
  moved_[segment] = {};
  allocate(schedule_.segments[segment].enter_allocate);
  for (int64_t i = 0; i < schedule_.program.segments[segment].trips; ++i)
    for (const Issue& next : orders_[segment])
      issue({segment, i, next});
  release(schedule_.segments[segment].exit_release);
}

GpuGraph StreamWalk::capture_segment(size_t segment) {
  CUstream_st* compute = stream(Lane::compute);
  gpu_.begin_capture(compute);
  try {
    gpu_.record(fork_.get(), compute);
    for (const Lane lane : side_lanes)
      if (lane_in(segment, lane)) gpu_.wait(stream(lane), fork_.get());
    issue_segment(segment);
    for (const Lane lane : side_lanes) {
      if (!lane_in(segment, lane)) continue;
      gpu_.record(join_[index_of(lane)].get(), stream(lane));
      gpu_.wait(compute, join_[index_of(lane)].get());
    }
    return {gpu_, gpu_.end_capture(compute)};
  } catch (...) {
    gpu_.abandon_capture(compute);
    throw;
  }
}

void StreamWalk::issue(const LanePlace& place) {
  const auto [lane, index] = place.issue;
  BoundStep& step = bound_.segments[place.segment].lanes[index_of(lane)][index_of(index)];
  try {
    for (const Wait& wait : step.step->waits)
      gpu_.wait(stream(lane), event_of(place.segment, wait.on, wait.step));
    allocate(step.step->allocate);
    if (step.step->kind == StepKind::run) run_op(step, place);
    release(step.step->release);
    if (CUevent_st* event = event_of(place.segment, lane, index)) gpu_.record(event, stream(lane));
  } catch (const RunError& error) {
    throw RunError(text("segment ", schedule_.program.segments[place.segment].name, ", iteration ",
                        place.iteration, ", op ", step.op->name, ": ", error.what()));
  }
}

void StreamWalk::run_op(BoundStep& step, const LanePlace& place) {
  step.point_at(arenas_, place.iteration);
  const OpCall call{step.op, step.inputs, step.outputs, -1};
  const bool collective = options_.collectives != nullptr && place.issue.lane == Lane::collective;
  const CudaKernel* kernel = options_.kernels(step.op->kind);
  check(collective || kernel != nullptr, "no CUDA kernel for ", step.info->name);
  CUstream_st* on = stream(place.issue.lane);
  const CudaCall cuda{call, &words_->step, workspace_of(*step.step, *step.op, arenas_), on};
  const bool host_copy = is_host_copy(*step.op);
  const NvtxRange range(step.range, place.iteration);
  if (times_) gpu_.record_time(times_->begin(place), on);
  if (collective) options_.collectives->run(call, on);
  const bool by_library = collective || (options_.products != nullptr &&
                                         options_.products->run(call, cuda.workspace, on));
  for (int64_t i = 0; i < (host_copy ? options_.copies_made : 1) && !by_library; ++i)
    kernel->run(cuda);
  gpu_.check_launch();
  if (times_) gpu_.record_time(times_->end(place), on);
  if (host_copy)
    moved_[place.segment][index_of(place.issue.lane)] +=
        step.inputs[0].elements() * bytes_of(step.inputs[0].dtype);
}

void StreamWalk::allocate(const std::vector<TensorId>& tensors) {
  if (!options_.poison) return;
  for (const TensorId id : tensors)
    poison(id);
}

void StreamWalk::release(const std::vector<TensorId>& tensors) {
  for (const TensorId id : tensors) {
    // Its bytes are about to be reused. Within the device: a copy to host would queue behind others.
    if (id == schedule_.program.loss)
      gpu_.copy(reinterpret_cast<std::byte*>(&words_->loss), arenas_.address(id), sizeof(float),
                stream(Lane::compute));
    if (options_.poison) poison(id);
  }
}

// Host tensors hold no values when a step begins: the executor fills them then.
void StreamWalk::poison(TensorId id) {
  const Tensor& tensor = schedule_.program.at(id);
  if (tensor.space == Space::device)
    gpu_.fill(arenas_.address(id), unset_byte, tensor.bytes(), stream(Lane::compute));
}

}  // namespace spillway
