#include "harness/sim_clock.h"

#include <algorithm>

#include "harness/error.h"
#include "harness/sim_ranks.h"

namespace spillway {

SimClock::SimClock(const SimProgram& program, SimWatch watch, SimRank rank)
    : program_(program), watch_(std::move(watch)), rank_(rank) {
  if (rank.records) spans.reserve(2 * program.spans);
  for (size_t lane = 0; lane < lane_count; ++lane)
    settle(lane);
}

// Moves a position that ran over the end of its body to the next iteration or segment.
void SimClock::settle(size_t lane) {
  SimLaneState& at = state.lanes[lane];
  while (!done(lane) && at.position == lane_at(lane).steps) {
    at.position = 0;
    const SimSegment& segment = program_.segments[at.segment];
    if (segment.lanes[lane].steps > 0 && ++at.iteration < segment.trips) return;
    at.iteration = 0;
    ++at.segment;
  }
}

void SimClock::begin_all() {
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t lane = 0; lane < lane_count; ++lane)
      while (!done(lane) && !state.lanes[lane].running && pass_waits(lane)) {
        begin(lane);
        moved = true;
      }
  }
}

// Takes the waits of the current step in their order, as the other executors do; false while one
// holds.
bool SimClock::pass_waits(size_t lane) {
  SimLaneState& at = state.lanes[lane];
  const SimStep& step = step_at(lane);
  for (; step.first_wait + at.wait < step.end_wait; ++at.wait) {
    const SimWait& wait = program_.waits[step.first_wait + at.wait];
    const SimLane& other = program_.segments[at.segment].lanes[wait.on];
    const int64_t target =
        other.finished + at.iteration * static_cast<int64_t>(other.steps) + wait.step;
    if (state.lanes[wait.on].finished <= target) {
      if (at.blocked == sim_never) at.blocked = state.now;
      return false;
    }
    if (at.blocked < state.now) record_wait(lane, wait);
    at.blocked = sim_never;
  }
  if (rank_.gates && !pass_gate(lane, step)) return false;
  at.wait = 0;
  return true;
}

bool SimClock::pass_gate(size_t lane, const SimStep& step) {
  if (!step.runs || !program_.demands[step.work].joins_ranks) return true;
  SimLaneState& at = state.lanes[lane];
  SimGates::Gate& gate = rank_.gates->lanes[lane];
  if (gate.open <= at.finished && at.gate == sim_never) {
    at.gate = state.now;
    if (++gate.arrived == rank_.gates->ranks) gate = {at.finished + 1, 0};
  }
  if (gate.open <= at.finished) return false;
  const SimLaneState& compute = state.lanes[index_of(Lane::compute)];
  if (compute.blocked != sim_never && at.gate != sim_never) {
    const SimStep& stands = step_at(index_of(Lane::compute));
    if (program_.waits[stands.first_wait + compute.wait].on == lane)
      rank_waiting += state.now - std::max(at.gate, compute.blocked);
  }
  at.gate = sim_never;
  return true;
}

double SimClock::compute_factor() {
  if (rank_.op_sigma == 0) return rank_.factor;
  return rank_.factor * log_normal(rank_.op_sigma, rank_.seed, drawn_++);
}

void SimClock::begin(size_t lane) {
  const SimStep& step = step_at(lane);
  if (!step.runs) return finish(lane);
  SimLaneState& at = state.lanes[lane];
  at.began = state.now;
  at.left = program_.demands[step.work].seconds;
  if (static_cast<Lane>(lane) == Lane::compute) at.left *= compute_factor();
  at.running = at.left > 0;
  if (!at.running) end(lane);  // a free transfer
}

void SimClock::end(size_t lane) {
  state.lanes[lane].running = false;
  if (rank_.records) add_span(lane, SpanKind::op, state.lanes[lane].began);
  state.moved[lane] += program_.moved[step_at(lane).work];
  finish(lane);
}

void SimClock::finish(size_t lane) {
  ++state.lanes[lane].position;
  ++state.lanes[lane].finished;
  settle(lane);
}

double SimClock::until_next_end() {
  for (size_t lane = 0; lane < lane_count; ++lane)
    running_[lane] = state.lanes[lane].running ? &program_.demands[step_at(lane).work] : nullptr;
  speeds_ = fair_speeds(running_);
  double seconds = sim_never;
  for (size_t lane = 0; lane < lane_count; ++lane)
    if (running_[lane]) seconds = std::min(seconds, state.lanes[lane].left / speeds_[lane]);
  return seconds;
}

void SimClock::pass(double seconds) {
  if (watch_) watch_(seconds, running_, speeds_);
  state.now += seconds;
  for (size_t lane = 0; lane < lane_count; ++lane) {
    if (!running_[lane]) continue;
    // Ends that differ by rounding alone are one event.
    const bool ends = state.lanes[lane].left / speeds_[lane] <= seconds * (1 + 1e-12);
    state.lanes[lane].left -= seconds * speeds_[lane];
    if (ends) end(lane);
  }
}

bool SimClock::pass_time() {
  const double seconds = until_next_end();
  if (seconds == sim_never) return false;
  pass(seconds);
  return true;
}

Span& SimClock::add_span(size_t lane, SpanKind kind, double begin) {
  Span& span = spans.emplace_back();
  span.kind = kind;
  span.lane = span.on = static_cast<Lane>(lane);
  span.segment = static_cast<int32_t>(state.lanes[lane].segment);
  span.iteration = state.lanes[lane].iteration;
  span.op = step_at(lane).op;
  span.begin = begin;
  span.end = state.now;
  return span;
}

// Idling of the other lanes is not waiting: only compute has something to lose.
void SimClock::record_wait(size_t lane, const SimWait& wait) {
  if (static_cast<Lane>(lane) != Lane::compute || !rank_.records) return;
  Span& span = add_span(lane, SpanKind::wait, state.lanes[lane].blocked);
  span.on = static_cast<Lane>(wait.on);
  span.op = wait.op;
}

void SimClock::check_finished() const {
  for (size_t lane = 0; lane < lane_count; ++lane)
    check(done(lane), "deadlock: lane ", name_of(static_cast<Lane>(lane)), " stands in segment ",
          state.lanes[lane].segment, ", iteration ", state.lanes[lane].iteration, ", step ",
          state.lanes[lane].position, " of the schedule");
}

}  // namespace spillway
