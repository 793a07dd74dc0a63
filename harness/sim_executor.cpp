// The simulator: walks every lane of a schedule on a virtual clock. Computes no values. Between
// two events (an op ending on some lane) all speeds are constant.

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/error.h"
#include "harness/sim_demand.h"

namespace spillway {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// Demands of every op, computed once.
using Demands = std::vector<std::vector<Demand>>;  // [segment][op]

// Where one lane stands. `finished` counts its steps since the step began.
struct LaneState {
  size_t segment = 0, position = 0, wait = 0;
  int64_t iteration = 0, finished = 0;
  bool running = false;  // an op is under way
  double left = 0;       // its seconds still to do, at full speed
  double began = 0;
  double blocked = never;  // since when it has stood at the wait
};

// One training step.
class StepRun {
 public:
  StepRun(const Schedule& schedule, const Demands& demands)
      : schedule_(schedule), demands_(demands) {
    int64_t base[lane_count] = {};
    for (size_t s = 0; s < schedule.segments.size(); ++s)
      for (size_t lane = 0; lane < lane_count; ++lane) {
        const auto steps = static_cast<int64_t>(schedule.segments[s].lanes[lane].size());
        base_[lane].push_back(base[lane]);
        base[lane] += steps * schedule.program.segments[s].trips;
      }
    for (size_t lane = 0; lane < lane_count; ++lane)
      settle(lane);
  }

  Trace run() {
    for (;;) {
      while (advance_all()) {
      }
      if (!pass_time()) break;
    }
    check_finished();
    trace_.seconds = now_;
    trace_.loss = std::nan("");
    return std::move(trace_);
  }

 private:
  const std::vector<LaneStep>& steps(size_t segment, size_t lane) const {
    return schedule_.segments[segment].lanes[lane];
  }
  bool done(size_t lane) const { return lanes_[lane].segment == schedule_.segments.size(); }
  const LaneStep& current(size_t lane) const {
    return steps(lanes_[lane].segment, lane)[lanes_[lane].position];
  }

  // Moves a position that ran over the end of its body to the next iteration or segment.
  void settle(size_t lane) {
    LaneState& at = lanes_[lane];
    while (!done(lane) && at.position == steps(at.segment, lane).size()) {
      at.position = 0;
      const bool empty = steps(at.segment, lane).empty();
      const int64_t trips = schedule_.program.segments[at.segment].trips;
      if (!empty && ++at.iteration < trips) return;
      at.iteration = 0;
      ++at.segment;
    }
  }

  bool advance_all() {
    bool moved = false;
    for (size_t lane = 0; lane < lane_count; ++lane)
      while (!done(lane) && !lanes_[lane].running && pass_waits(lane)) {
        begin(lane);
        moved = true;
      }
    return moved;
  }

  // Takes the waits of the current step in their order, as the other executors do; false while one
  // holds.
  bool pass_waits(size_t lane) {
    LaneState& at = lanes_[lane];
    const std::vector<Wait>& waits = current(lane).waits;
    for (; at.wait < waits.size(); ++at.wait) {
      const Wait& wait = waits[at.wait];
      const auto on = static_cast<size_t>(wait.on);
      const auto length = static_cast<int64_t>(steps(at.segment, on).size());
      const int64_t target = base_[on][at.segment] + at.iteration * length + wait.step;
      if (lanes_[on].finished <= target) {
        if (at.blocked == never) at.blocked = now_;
        return false;
      }
      if (at.blocked < now_) record_wait(lane, wait);
      at.blocked = never;
    }
    at.wait = 0;
    return true;
  }

  const Demand& demand(size_t lane) const {
    return demands_[lanes_[lane].segment][static_cast<size_t>(current(lane).op)];
  }

  void begin(size_t lane) {
    LaneState& at = lanes_[lane];
    if (current(lane).kind != StepKind::run) return finish(lane);
    at.began = now_;
    at.left = demand(lane).seconds;
    at.running = at.left > 0;
    if (!at.running) end(lane);  // a free transfer
  }

  void end(size_t lane) {
    lanes_[lane].running = false;
    record_op(lane);
    finish(lane);
  }

  void finish(size_t lane) {
    ++lanes_[lane].position;
    ++lanes_[lane].finished;
    settle(lane);
  }

  // Runs the clock to the next end of an op; false when nothing runs.
  bool pass_time() {
    std::array<const Demand*, lane_count> running{};
    for (size_t lane = 0; lane < lane_count; ++lane)
      if (lanes_[lane].running) running[lane] = &demand(lane);
    const auto speeds = fair_speeds(running);
    double elapsed = never;
    for (size_t lane = 0; lane < lane_count; ++lane)
      if (running[lane]) elapsed = std::min(elapsed, lanes_[lane].left / speeds[lane]);
    if (elapsed == never) return false;
    now_ += elapsed;
    for (size_t lane = 0; lane < lane_count; ++lane) {
      if (!running[lane]) continue;
      // Ends that differ by rounding alone are one event.
      const bool ends = lanes_[lane].left / speeds[lane] <= elapsed * (1 + 1e-12);
      lanes_[lane].left -= elapsed * speeds[lane];
      if (ends) end(lane);
    }
    return true;
  }

  Span span_at(size_t lane) const {
    Span span;
    span.lane = static_cast<Lane>(lane);
    span.segment = static_cast<int32_t>(lanes_[lane].segment);
    span.iteration = lanes_[lane].iteration;
    span.op = current(lane).op;
    span.end = now_;
    return span;
  }

  void record_op(size_t lane) {
    Span span = span_at(lane);
    span.begin = lanes_[lane].began;
    trace_.spans.push_back(span);
    const Op& op =
        schedule_.program.segments[lanes_[lane].segment].ops[static_cast<size_t>(span.op)];
    const OpCost cost = info(op.kind).cost(schedule_.program, op);
    trace_.bytes_moved[lane] += std::llround(cost.link_bytes + cost.group_bytes);
  }

  // Idling of the other lanes is not waiting: only compute has something to lose.
  void record_wait(size_t lane, const Wait& wait) {
    if (static_cast<Lane>(lane) != Lane::compute) return;
    Span span = span_at(lane);
    span.kind = SpanKind::wait;
    span.on = wait.on;
    const auto& waited = steps(lanes_[lane].segment, static_cast<size_t>(wait.on));
    span.op = waited[static_cast<size_t>(wait.step)].op;
    span.begin = lanes_[lane].blocked;
    trace_.spans.push_back(span);
  }

  void check_finished() const {
    for (size_t lane = 0; lane < lane_count; ++lane)
      check(done(lane), "deadlock: lane ", name_of(static_cast<Lane>(lane)), " stands in segment ",
            lanes_[lane].segment, ", iteration ", lanes_[lane].iteration, ", step ",
            lanes_[lane].position, " of the schedule");
  }

  const Schedule& schedule_;
  const Demands& demands_;
  std::vector<int64_t> base_[lane_count];  // steps of the lane before each segment
  std::array<LaneState, lane_count> lanes_;
  double now_ = 0;
  Trace trace_;
};

class SimExecutor : public Executor {
 public:
  SimExecutor(const Schedule& schedule, const Machine& machine, const SimOptions& options)
      : schedule_(schedule) {
    for (const Segment& segment : schedule.program.segments) {
      std::vector<Demand>& demands = demands_.emplace_back();
      for (const Op& op : segment.ops)
        demands.push_back(demand_of(schedule.program, op, machine, options));
    }
  }
  Trace step() override { return StepRun(schedule_, demands_).run(); }

 private:
  const Schedule& schedule_;
  Demands demands_;
};

}  // namespace

std::unique_ptr<Executor> make_sim_executor(const Schedule& schedule, const Machine& machine,
                                            const SimOptions& options) {
  return std::make_unique<SimExecutor>(schedule, machine, options);
}

}  // namespace spillway
