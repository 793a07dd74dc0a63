#include "harness/sim_steady.h"

#include <algorithm>
#include <cmath>

namespace spillway {
namespace {

constexpr size_t longest_period = 4;  // iterations
// Differences of less than so much of the time since the step began are rounding.
constexpr double steady_rounding = 1e-12;

constexpr size_t compute = index_of(Lane::compute);

// Same place in the body, and the same still to do. Idle lanes record no wait: since when they have
// stood is of no account.
bool same_work(const SimLaneState& a, double a_now, const SimLaneState& b, double b_now,
               bool compute_lane) {
  if (a.position != b.position || a.wait != b.wait || a.running != b.running) return false;
  const double tolerance = steady_rounding * b_now;
  if (a.running)
    return std::abs(a.left - b.left) <= tolerance &&
           std::abs((a_now - a.began) - (b_now - b.began)) <= tolerance;
  if (!compute_lane || (a.blocked == sim_never && b.blocked == sim_never)) return true;
  return std::abs((a_now - a.blocked) - (b_now - b.blocked)) <= tolerance;
}

}  // namespace

bool SimSteady::repeats(const SimState& then, const SimState& now) const {
  const int64_t period = now.lanes[compute].iteration - then.lanes[compute].iteration;
  for (size_t lane = 0; lane < lane_count; ++lane) {
    const SimLaneState &a = then.lanes[lane], &b = now.lanes[lane];
    if (a.segment != b.segment) return false;
    if (a.segment == segment_) {
      if (b.iteration - a.iteration != period) return false;
      if (!same_work(a, then.now, b, now.now, lane == compute)) return false;
    } else if (a.finished != b.finished || a.running || b.running) {
      return false;  // of another segment: only what stands still the whole time
    }
  }
  return true;
}

int64_t SimSteady::periods_to_skip(const SimState& then, const SimState& now) const {
  int64_t left = program_.segments[segment_].trips;
  for (const SimLaneState& lane : now.lanes)
    if (lane.segment == segment_)
      left = std::min(left, program_.segments[segment_].trips - 1 - lane.iteration);
  return left / (now.lanes[compute].iteration - then.lanes[compute].iteration);
}

void SimSteady::skip(const Seen& then, SimClock& clock, int64_t periods) const {
  SimState& state = clock.state;
  const double seconds = state.now - then.state.now;
  const int64_t iterations = state.lanes[compute].iteration - then.state.lanes[compute].iteration;
  for (size_t i = then.spans; i < clock.spans.size(); ++i) {
    Span& span = clock.spans[i];
    span.repeats = 1 + periods;
    span.period = seconds;
    span.period_iterations = iterations;
  }
  const double shift = static_cast<double>(periods) * seconds;
  for (size_t lane = 0; lane < lane_count; ++lane) {
    SimLaneState& at = state.lanes[lane];
    state.moved[lane] += periods * (state.moved[lane] - then.state.moved[lane]);
    at.finished += periods * (at.finished - then.state.lanes[lane].finished);
    if (at.segment != segment_) continue;
    at.iteration += periods * iterations;
    at.began += shift;
    at.blocked += shift;
  }
  state.now += shift;
}

void SimSteady::look(SimClock& clock) {
  const SimLaneState& at = clock.state.lanes[compute];
  if (at.segment == segment_ && at.iteration == iteration_) return;
  if (at.segment != segment_) seen_.clear();
  segment_ = at.segment;
  iteration_ = at.iteration;
  if (segment_ == program_.segments.size() || program_.segments[segment_].trips < 3) return;
  for (size_t i = seen_.size(); i-- > 0;) {
    if (!repeats(seen_[i].state, clock.state)) continue;
    const int64_t periods = periods_to_skip(seen_[i].state, clock.state);
    if (periods > 0) {
      skip(seen_[i], clock, periods);
      seen_.clear();
      iteration_ = at.iteration;
    }
    return;
  }
  if (seen_.size() == longest_period) seen_.erase(seen_.begin());
  seen_.push_back({clock.state, clock.spans.size()});
}

}  // namespace spillway
