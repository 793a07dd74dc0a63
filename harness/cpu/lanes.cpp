// The walk of each lane. A lane's own counter is its only output to other lanes.
#include "harness/cpu/lanes.h"

#include <cmath>
#include <limits>

namespace spillway {
namespace {

constexpr int64_t shortest_wait_ns = 1000;  // shorter ones are not recorded

}  // namespace

LaneShare::LaneShare(const Schedule& run_schedule, const Arenas& run_arenas)
    : schedule(run_schedule),
      arenas(run_arenas),
      bound(bind(run_schedule, run_arenas)),
      stamps(run_schedule.program) {}

void LaneShare::fail(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
  }
  for (Progress& lane : progress)
    lane.stop();
  started.stop();
}

void LaneShare::expect_fresh(size_t segment, int op, int64_t iteration) {
  if (!stamps.fresh(static_cast<int>(segment), op, iteration, step))
    stale_slots.fetch_add(1, std::memory_order_relaxed);
}

void LaneShare::rethrow_failure() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

LaneWalk::LaneWalk(LaneShare& share, Lane lane) : share_(share), lane_(lane) {}

bool LaneWalk::wait(const BoundStep& step, Position at) {
  bool stood = false;
  for (const Wait& wait : step.step->waits) {
    Progress& other = share_.progress[static_cast<size_t>(wait.on)];
    const int64_t target = share_.bound.target(wait, at.segment, at.iteration, share_.step);
    if (other.reached(target)) continue;
    const int64_t begin = now_ns();
    other.wait_for(target, lane_);
    const int64_t end = now_ns();
    stood = true;
    if (end - begin < shortest_wait_ns) continue;
    const auto& lanes = share_.bound.segments[at.segment].lanes[static_cast<size_t>(wait.on)];
    spans.push_back({SpanKind::wait, lane_, wait.on, static_cast<int32_t>(at.segment),
                     lanes[static_cast<size_t>(wait.step)].step->op, at.iteration, seconds(begin),
                     seconds(end)});
  }
  return stood;
}

void LaneWalk::record_op(const BoundStep& step, Position at, int64_t begin_ns) {
  spans.push_back({SpanKind::op, lane_, lane_, static_cast<int32_t>(at.segment), step.step->op,
                   at.iteration, seconds(begin_ns), seconds(now_ns())});
}

void LaneWalk::finish_step() {
  share_.progress[static_cast<size_t>(lane_)].advance_to(++finished_);
}

void ComputeLane::run_training_step() {
  spans.clear();
  loss_ = std::numeric_limits<double>::quiet_NaN();
  const NvtxRange range(share_.bound.range, share_.step);
  for (size_t s = 0; s < share_.bound.segments.size(); ++s)
    run_segment(s);
  const TensorId loss = share_.schedule.program.loss;
  if (loss != no_tensor && share_.schedule.program.at(loss).extent == Extent::persistent)
    read_loss();
}

void ComputeLane::run_segment(size_t segment) {
  const SegmentSchedule& schedule = share_.schedule.segments[segment];
  const Segment& body = share_.schedule.program.segments[segment];
  BoundSegment& bound = share_.bound.segments[segment];
  const NvtxRange range(bound.range, share_.step);
  allocate(schedule.enter_allocate);
  for (int64_t iteration = 0; iteration < body.trips; ++iteration) {
    for (BoundStep& step : bound.lanes[static_cast<size_t>(lane_)]) {
      run_lane_step(step, {segment, iteration});
    }
  }
  release(schedule.exit_release);
  if (poison_ != nullptr) poison_->verify("at the end of segment " + body.name);
}

void ComputeLane::run_lane_step(BoundStep& step, Position at) {
  wait(step, at);
  allocate(step.step->allocate);
  if (step.step->kind == StepKind::run) run_op(step, at);
  for (const int write_back : step.write_backs)
    share_.expect_fresh(at.segment, write_back, at.iteration);
  release(step.step->release);
  finish_step();
}

void ComputeLane::run_op(BoundStep& step, Position at) {
  step.point_at(share_.arenas, at.iteration);
  const OpCall call = {step.op, step.inputs, step.outputs, share_.step};
  const NvtxRange range(step.range, at.iteration);
  const int64_t begin = now_ns();
  step.info->run(call, pool_);
  record_op(step, at, begin);
}

void ComputeLane::allocate(const std::vector<TensorId>& tensors) {
  if (poison_ == nullptr) return;
  for (const TensorId tensor : tensors)
    poison_->allocate(tensor);
}

void ComputeLane::release(const std::vector<TensorId>& tensors) {
  for (const TensorId tensor : tensors) {
    if (tensor == share_.schedule.program.loss) read_loss();  // its bytes are about to be reused
    if (poison_ != nullptr) poison_->release(tensor);
  }
}

void ComputeLane::read_loss() {
  const TensorId loss = share_.schedule.program.loss;
  loss_ = *reinterpret_cast<const float*>(share_.arenas.address(loss));
}

CopyLane::CopyLane(LaneShare& share, Lane lane, const CpuOptions& options)
    : LaneWalk(share, lane),
      pacer_(options.link_bytes_per_second, options.slow_copy),
      thread_([this] { serve(); }) {}

CopyLane::~CopyLane() {
  share_.fail(nullptr);  // no lane runs: this ends the threads' wait for the next step
  thread_.join();
}

void CopyLane::serve() {
  use_precise_sleep();
  try {
    for (int64_t steps = 1;; ++steps) {
      share_.started.wait_for(steps, lane_);
      run_training_step();
    }
  } catch (const LaneStopped&) {
  } catch (...) {
    share_.fail(std::current_exception());
  }
}

void CopyLane::run_training_step() {
  spans.clear();
  bytes_moved = 0;
  for (size_t s = 0; s < share_.bound.segments.size(); ++s) {
    auto& steps = share_.bound.segments[s].lanes[static_cast<size_t>(lane_)];
    const int64_t trips = steps.empty() ? 0 : share_.schedule.program.segments[s].trips;
    for (int64_t iteration = 0; iteration < trips; ++iteration) {
      for (BoundStep& step : steps)
        run_copy(step, {s, iteration});
    }
  }
}

void CopyLane::run_copy(BoundStep& step, Position at) {
  const bool waited = wait(step, at);
  step.point_at(share_.arenas, at.iteration);
  const Buffer& from = step.inputs[0];
  const Buffer& to = step.outputs[0];
  const int64_t bytes = from.elements() * bytes_of(from.dtype);
  if (lane_ == Lane::h2d) share_.expect_fresh(at.segment, step.step->op, at.iteration);
  {
    const NvtxRange range(step.range, at.iteration);
    const int64_t begin = now_ns();
    pacer_.copy(to.data, from.data, bytes, waited);
    record_op(step, at, begin);
  }
  bytes_moved += bytes;
  if (lane_ == Lane::d2h) {
    share_.stamps.written(static_cast<int>(at.segment), step.step->op, at.iteration, share_.step);
  }
  finish_step();
}

}  // namespace spillway
