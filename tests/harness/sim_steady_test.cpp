// Loops simulated until they repeat against the same loops simulated iteration by iteration.

#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "harness/measurement.h"
#include "tests/harness/sim_support.h"

namespace spillway {
namespace {

const SimOptions one_by_one{.every_iteration = true};

auto place_of(const Span& span) {
  return std::make_tuple(span.lane, span.segment, span.iteration, span.kind, span.op, span.on);
}

std::vector<Span> sorted_spans(const Trace& trace) {
  std::vector<Span> spans = every_span(trace);
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::make_pair(place_of(a), a.begin) < std::make_pair(place_of(b), b.begin);
  });
  return spans;
}

void expect_same_spans(const Trace& folded, const Trace& whole) {
  const double tolerance = 1e-9 * whole.seconds;
  const std::vector<Span> a = sorted_spans(folded), b = sorted_spans(whole);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(place_of(a[i]), place_of(b[i])) << i;
    ASSERT_NEAR(a[i].begin, b[i].begin, tolerance) << i;
    ASSERT_NEAR(a[i].end, b[i].end, tolerance) << i;
  }
}

void expect_same_figures(const Schedule& schedule, const Trace& folded, const Trace& whole) {
  const double tolerance = 1e-9 * whole.seconds;
  EXPECT_NEAR(folded.seconds, whole.seconds, tolerance);
  for (size_t lane = 0; lane < lane_count; ++lane) {
    EXPECT_EQ(folded.bytes_moved[lane], whole.bytes_moved[lane]);
    const LaneTimes a = lane_times(folded, static_cast<Lane>(lane));
    const LaneTimes b = lane_times(whole, static_cast<Lane>(lane));
    EXPECT_NEAR(a.busy, b.busy, tolerance);
    EXPECT_NEAR(a.waiting, b.waiting, tolerance);
  }
  const std::vector<Transfer> a = transfers_of(schedule, folded), b = transfers_of(schedule, whole);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].bytes, b[i].bytes);
    EXPECT_NEAR(a[i].seconds, b[i].seconds, tolerance);
    EXPECT_NEAR(a[i].exposed_seconds, b[i].exposed_seconds, tolerance);
  }
  const auto kinds = seconds_by_kind(schedule, folded),
             whole_kinds = seconds_by_kind(schedule, whole);
  ASSERT_EQ(kinds.size(), whole_kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_EQ(kinds[i].first, whole_kinds[i].first);
    EXPECT_NEAR(kinds[i].second, whole_kinds[i].second, tolerance);
  }
  EXPECT_NEAR(segment_seconds(folded, 0), segment_seconds(whole, 0), tolerance);
}

// Takes waits out, so that lanes run ahead or fall behind over iterations.
void drop_waits(Schedule& schedule, double part, std::mt19937& random) {
  for (std::vector<LaneStep>& lane : schedule.segments[0].lanes)
    for (LaneStep& step : lane)
      std::erase_if(step.waits, [&](const Wait&) {
        return std::uniform_real_distribution<double>()(random) < part;
      });
}

TEST(SimSteady, RandomLoopsAgreeWithEveryIteration) {
  std::mt19937 random(4);
  const Machine machine = contended_machine();
  int folded_loops = 0;
  for (int round = 0; round < 300; ++round) {
    const int64_t trips = std::uniform_int_distribution<int64_t>(1, 40)(random);
    Schedule schedule = random_schedule(random, trips);
    drop_waits(schedule, 0.15 * (round % 4), random);
    SCOPED_TRACE(round);
    const Trace folded = simulate(schedule, machine);
    const Trace whole = simulate(schedule, machine, one_by_one);
    expect_same_figures(schedule, folded, whole);
    expect_same_spans(folded, whole);
    folded_loops += folded.spans.size() < whole.spans.size();
  }
  EXPECT_GT(folded_loops, 200);
}

// 1000 iterations of 3 s; the second stands for all but the first and the last, or the first does.
TEST(SimSteady, ALoopTakesAFewIterations) {
  SimBody body(1000);
  const int copy = body.d2h(1), compute = body.matmul(3);
  const Schedule schedule =
      body.schedule({{StepKind::start, copy}, {StepKind::run, compute}, {StepKind::done, copy}});
  const Trace trace = simulate(schedule, round_machine());
  EXPECT_DOUBLE_EQ(trace.seconds, 3000);
  EXPECT_LE(trace.spans.size(), 6);
  EXPECT_EQ(every_span(trace).size(), 2000);
  EXPECT_EQ(trace.bytes_moved[index_of(Lane::d2h)], 40000);
  const TimeInterval middle = interval_of(trace, 0, 500);
  EXPECT_DOUBLE_EQ(middle.begin, 1500);
  EXPECT_DOUBLE_EQ(middle.end, 1503);
  const std::vector<Span> spans = spans_between(trace, middle.begin, middle.end);
  ASSERT_EQ(spans.size(), 2);
  for (const Span& span : spans)
    EXPECT_EQ(span.iteration, 500);
}

// A copy of 5 s in iterations of 3 s that never wait for it: 9 s later than compute in the fourth.
// Nothing repeats, and nothing is passed over.
TEST(SimSteady, ALaneThatFallsBehindDoesNotRepeat) {
  SimBody body(20);
  const int copy = body.d2h(5), compute = body.matmul(3);
  Schedule schedule =
      body.schedule({{StepKind::start, copy}, {StepKind::run, compute}, {StepKind::done, copy}});
  for (LaneStep& step : schedule.segments[0].lanes[index_of(Lane::compute)])
    step.waits.clear();
  const Trace trace = simulate(schedule, round_machine());
  EXPECT_DOUBLE_EQ(trace.seconds, 100);
  EXPECT_EQ(trace.spans.size(), 40);
}

}  // namespace
}  // namespace spillway
