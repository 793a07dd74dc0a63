// Ranks that wait for each other, against hand arithmetic.

#include "harness/sim_ranks.h"

#include <cmath>

#include <gtest/gtest.h>

#include "harness/measurement.h"
#include "tests/harness/sim_support.h"

namespace spillway {
namespace {

SimOptions two_ranks(double straggler) {
  SimOptions options;
  options.ranks.count = 2;
  options.ranks.straggler = straggler;
  return options;
}

// 4 s of compute, then a gather of 3 s. The slow rank arrives after 8 s: it decides. The other has
// stood for it for 4 s, half of that on the mean of both, and for the gather itself for 3 more.
TEST(SimRanks, ACollectiveBeginsWhenTheLastRankArrives) {
  SimBody body(1, 2);
  const int compute = body.matmul(4), gather = body.gather(3);
  const Schedule schedule = body.schedule(
      {{StepKind::run, compute}, {StepKind::start, gather}, {StepKind::done, gather}});
  const Trace trace = simulate(schedule, round_machine(), two_ranks(2));
  EXPECT_NEAR(trace.seconds, 11, 1e-12);
  EXPECT_NEAR(trace.rank_waiting_seconds, 2, 1e-12);
  EXPECT_NEAR(compute_lane_times(trace).busy, 4, 1e-12);
  EXPECT_NEAR(compute_lane_times(trace).waiting, 7, 1e-12);
  EXPECT_EQ(trace.bytes_moved[index_of(Lane::collective)], 240);
}

// The fast rank is at the gather after 2 s and goes on: 2 s of the second product alone, then 2 at
// four fifths, since the gather, from 4 to 7, holds a fifth of the cores: until 6.5. The slow one
// does 2.4 of its 8 s beside the gather and ends after 7 + 5.6.
TEST(SimRanks, ComputeGoesOnWhileARankIsWaitedFor) {
  SimBody body(1, 2);
  const int a = body.matmul(2), gather = body.gather(3), b = body.matmul(4);
  const Schedule schedule = body.schedule({{StepKind::run, a},
                                           {StepKind::start, gather},
                                           {StepKind::run, b},
                                           {StepKind::done, gather}});
  const Trace trace =
      simulate(schedule, round_machine({{"collective_sm_share", 0.2}}), two_ranks(2));
  EXPECT_NEAR(trace.seconds, 12.6, 1e-12);
  EXPECT_NEAR(trace.rank_waiting_seconds, 0, 1e-12);
  for (const Span& span : trace.spans) {
    if (span.kind != SpanKind::op || span.op == a) continue;
    EXPECT_NEAR(span.end, span.op == b ? 6.5 : 7, 1e-12);
  }
}

// Without differences N ranks are one, to the last bit.
TEST(SimRanks, EqualRanksAreOne) {
  std::mt19937 random(3);
  SimOptions equal;
  equal.ranks.count = 5;
  const Machine machine = round_machine({{"collective_sm_share", 0.12}});
  for (int round = 0; round < 20; ++round) {
    const Schedule schedule = random_schedule(random, 5);
    EXPECT_EQ(simulate(schedule, machine, equal).seconds, simulate(schedule, machine).seconds);
    // Nor does the walk of many ranks by itself change anything but rounding.
    SimRanks five;
    five.count = 5;
    EXPECT_NEAR(simulate_ranks(flatten(schedule, machine, {}), five).seconds,
                simulate(schedule, machine).seconds, 1e-9);
  }
}

TEST(SimRanks, TheSeedDecides) {
  std::mt19937 random(7);
  const Schedule schedule = random_schedule(random, 5);
  SimOptions options;
  options.ranks = {.count = 4, .rank_sigma = 0.05, .op_sigma = 0.1, .seed = 1};
  const double once = simulate(schedule, round_machine(), options).seconds;
  EXPECT_EQ(simulate(schedule, round_machine(), options).seconds, once);
  options.ranks.seed = 2;
  EXPECT_NE(simulate(schedule, round_machine(), options).seconds, once);
}

// The first ranks of more are the same ranks, and a step waits for the slowest: it only grows.
TEST(SimRanks, MoreRanksAreNeverFaster) {
  SimBody body(10, 2);
  const int compute = body.matmul(4), gather = body.gather(1);
  const Schedule schedule = body.schedule(
      {{StepKind::run, compute}, {StepKind::start, gather}, {StepKind::done, gather}});
  SimOptions options;
  options.ranks = {.count = 1, .op_sigma = 0.1, .seed = 5};
  double before = 0;
  for (options.ranks.count = 1; options.ranks.count <= 64; options.ranks.count *= 2) {
    const double seconds = simulate(schedule, round_machine(), options).seconds;
    EXPECT_GT(seconds, before);
    before = seconds;
  }
  EXPECT_GT(before,
            10 * (4 * 1.15 + 1));  // the largest of 64 exceeds a standard deviation and a half
}

TEST(SimRanks, FactorsAreLogNormalOfMeanOne) {
  constexpr int n = 40000;
  constexpr double sigma = 0.2;
  double sum = 0, logs = 0, squares = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double factor = log_normal(sigma, 11, i);
    sum += factor;
    logs += std::log(factor);
    squares += std::log(factor) * std::log(factor);
  }
  EXPECT_NEAR(sum / n, 1, 5 * sigma / std::sqrt(n));
  EXPECT_NEAR(logs / n, -sigma * sigma / 2, 5 * sigma / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n - logs / n * logs / n), sigma, 5 * sigma / std::sqrt(2 * n));
  EXPECT_EQ(log_normal(0, 11, 3), 1);
}

}  // namespace
}  // namespace spillway
