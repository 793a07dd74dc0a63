// Reading a step's events back: one pass in the order of issue, in which every awaited step comes
// before those that wait for it.
#include "harness/cuda/timestamps.h"

#include <algorithm>
#include <array>

namespace spillway {
namespace {

constexpr double shortest_wait_seconds = 1e-6;  // shorter ones are not recorded

// A write of host slots that was over, or a moment that needs one to be over.
struct SlotMoment {
  double seconds = 0;
  bool written = false;
  int segment = 0, op = 0;
  int64_t iteration = 0;
};

int64_t count_stale(std::vector<SlotMoment> moments, int64_t step, SlotStamps& stamps) {
  // Equal times are those of an event and of what waited for it.
  std::stable_sort(moments.begin(), moments.end(), [](const SlotMoment& a, const SlotMoment& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.written > b.written;
  });
  int64_t stale = 0;
  for (const SlotMoment& moment : moments) {
    if (moment.written)
      stamps.written(moment.segment, moment.op, moment.iteration, step);
    else
      stale += !stamps.fresh(moment.segment, moment.op, moment.iteration, step);
  }
  return stale;
}

// The pass over one step.
class Reading {
 public:
  Reading(Gpu& gpu, CUevent_st* origin, const Timestamps& times, const BoundProgram& bound)
      : gpu_(gpu), origin_(origin), times_(times), bound_(bound) {}

  void read_iteration(size_t segment, int64_t iteration, const std::vector<Issue>& order) {
    const BoundSegment& body = bound_.segments[segment];
    for (size_t lane = 0; lane < lane_count; ++lane)
      finished_[lane].assign(body.lanes[lane].size(), 0);
    for (const Issue& issue : order)
      read_step({segment, iteration, issue}, body);
  }

  std::vector<Span> spans;
  std::vector<SlotMoment> moments;

 private:
  double at(CUevent_st* event) const { return gpu_.seconds_between(origin_, event); }

  void read_step(const LanePlace& place, const BoundSegment& body) {
    const size_t lane = index_of(place.issue.lane), step = index_of(place.issue.step);
    const BoundStep& bound = body.lanes[lane][step];
    for (const Wait& wait : bound.step->waits)
      read_wait(place, wait, body);
    if (bound.step->kind == StepKind::run) read_op(place, *bound.step);
    for (const int write_back : bound.write_backs)
      add_moment(place, write_back, now_[lane], false);
    finished_[lane][step] = now_[lane];
  }

  void read_wait(const LanePlace& place, const Wait& wait, const BoundSegment& body) {
    const size_t on = index_of(wait.on), step = static_cast<size_t>(wait.step);
    double& now = now_[index_of(place.issue.lane)];
    const double over = finished_[on][step];
    if (over - now >= shortest_wait_seconds)
      spans.push_back({SpanKind::wait, place.issue.lane, wait.on,
                       static_cast<int32_t>(place.segment), body.lanes[on][step].step->op,
                       place.iteration, now, over});
    now = std::max(now, over);
  }

  void read_op(const LanePlace& place, const LaneStep& step) {
    const double begin = at(times_.begin(place)), end = at(times_.end(place));
    const Lane lane = place.issue.lane;
    spans.push_back({SpanKind::op, lane, lane, static_cast<int32_t>(place.segment), step.op,
                     place.iteration, begin, end});
    now_[index_of(lane)] = end;
    if (lane == Lane::d2h) add_moment(place, step.op, end, true);
    if (lane == Lane::h2d) add_moment(place, step.op, begin, false);
  }

  void add_moment(const LanePlace& place, int op, double seconds, bool written) {
    moments.push_back({seconds, written, static_cast<int>(place.segment), op, place.iteration});
  }

  Gpu& gpu_;
  CUevent_st* origin_;
  const Timestamps& times_;
  const BoundProgram& bound_;
  std::array<double, lane_count> now_{};                  // where each lane has come
  std::array<std::vector<double>, lane_count> finished_;  // of this iteration's steps
};

}  // namespace

Timestamps::Timestamps(Gpu& gpu, const BoundProgram& bound, const Program& program,
                       const std::vector<std::vector<Issue>>& orders)
    : bound_(bound), program_(program), orders_(orders) {
  size_t pairs = 0;
  for (size_t s = 0; s < bound.segments.size(); ++s) {
    Body body;
    body.first = pairs;
    for (size_t lane = 0; lane < lane_count; ++lane)
      for (const BoundStep& step : bound.segments[s].lanes[lane])
        body.number[lane].push_back(step.step->kind == StepKind::run ? body.runs++ : 0);
    pairs += body.runs * static_cast<size_t>(program.segments[s].trips);
    bodies_.push_back(std::move(body));
  }
  events_.reserve(2 * pairs);
  for (size_t i = 0; i < 2 * pairs; ++i)
    events_.push_back(make_event(gpu, EventUse::time));
}

size_t Timestamps::pair_of(const LanePlace& place) const {
  const Body& body = bodies_[place.segment];
  return body.first + static_cast<size_t>(place.iteration) * body.runs +
         body.number[index_of(place.issue.lane)][index_of(place.issue.step)];
}

CUevent_st* Timestamps::begin(const LanePlace& place) const {
  return events_[2 * pair_of(place)].get();
}

CUevent_st* Timestamps::end(const LanePlace& place) const {
  return events_[2 * pair_of(place) + 1].get();
}

TimedStep Timestamps::read(Gpu& gpu, CUevent_st* origin, int64_t step, SlotStamps& stamps) const {
  Reading reading(gpu, origin, *this, bound_);
  for (size_t s = 0; s < orders_.size(); ++s)
    for (int64_t iteration = 0; iteration < program_.segments[s].trips; ++iteration)
      reading.read_iteration(s, iteration, orders_[s]);
  return {std::move(reading.spans), count_stale(std::move(reading.moments), step, stamps)};
}

}  // namespace spillway
