// The simulator against hand arithmetic on hand-built bodies.

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>

#include "harness/measurement.h"
#include "tests/harness/sim_support.h"

namespace spillway {
namespace {

using enum StepKind;

std::vector<Span> waits(const Trace& trace) {
  std::vector<Span> found;
  for (const Span& span : every_span(trace))
    if (span.kind == SpanKind::wait) found.push_back(span);
  return found;
}

Span span_of(const Trace& trace, int op, int64_t iteration = 0) {
  for (const Span& span : every_span(trace))
    if (span.kind == SpanKind::op && span.op == op && span.iteration == iteration) return span;
  throw std::logic_error("no span of this op");
}

TEST(Sim, SerialScheduleTakesTheSumOfItsOps) {
  SimBody body(7);
  const int a = body.matmul(3), b = body.d2h(2), c = body.add(5), d = body.h2d(1);
  const Schedule schedule =
      body.schedule({{run, a}, {start, b}, {done, b}, {run, c}, {start, d}, {done, d}});
  // Contention figures that matter only to what runs side by side.
  const Machine machine = round_machine({{"copy_hbm_bytes", 3}, {"collective_sm_share", 0.5}});
  double sum = 0;
  for (const Op& op : schedule.program.segments[0].ops)
    sum += op_seconds(schedule.program, op, machine, {});
  EXPECT_DOUBLE_EQ(sum, 11);
  EXPECT_NEAR(simulate(schedule, machine).seconds, 7 * 11, 1e-9);
}

TEST(Sim, AShortCopyHidesBehindCompute) {
  SimBody body;
  const int copy = body.d2h(3), compute = body.matmul(5);
  const Trace trace =
      simulate(body.schedule({{start, copy}, {run, compute}, {done, copy}}), round_machine());
  EXPECT_NEAR(trace.seconds, 5, 1e-12);
  EXPECT_THAT(waits(trace), testing::IsEmpty());
  EXPECT_NEAR(span_of(trace, copy).begin, 0, 1e-12);
  EXPECT_NEAR(span_of(trace, copy).end, 3, 1e-12);
  EXPECT_EQ(trace.bytes_moved[static_cast<int>(Lane::d2h)], 120);
  EXPECT_TRUE(std::isnan(trace.loss));
}

TEST(Sim, WhatALongCopyExposesIsAWaitOfCompute) {
  SimBody body;
  const int copy = body.h2d(8), compute = body.matmul(5);
  const Trace trace =
      simulate(body.schedule({{start, copy}, {run, compute}, {done, copy}}), round_machine());
  EXPECT_NEAR(trace.seconds, 8, 1e-12);
  ASSERT_THAT(waits(trace), testing::SizeIs(1));
  const Span wait = waits(trace)[0];
  EXPECT_EQ(wait.lane, Lane::compute);
  EXPECT_EQ(wait.on, Lane::h2d);
  EXPECT_EQ(wait.op, copy);
  EXPECT_NEAR(wait.begin, 5, 1e-12);
  EXPECT_NEAR(wait.end, 8, 1e-12);
}

TEST(Sim, OneLaneIsAQueueAndDirectionsAreTwoLanes) {
  SimBody body;
  const int first = body.d2h(4), second = body.d2h(3), back = body.h2d(5);
  const Trace trace = simulate(body.schedule({{start, first},
                                              {start, second},
                                              {start, back},
                                              {done, back},
                                              {done, first},
                                              {done, second}}),
                               round_machine());
  EXPECT_NEAR(trace.seconds, 7, 1e-12);
  EXPECT_NEAR(span_of(trace, second).begin, 4, 1e-12);
  EXPECT_NEAR(span_of(trace, back).end, 5, 1e-12);
}

// Four iterations of start, 2 s of compute, done, 1 s of compute with a copy of 3 s: 3 + 1 each.
// Nothing of one iteration starts in another.
TEST(Sim, EveryIterationRunsAndJoins) {
  SimBody body(4);
  const int copy = body.d2h(3), a = body.matmul(2), b = body.add(1);
  const Trace trace =
      simulate(body.schedule({{start, copy}, {run, a}, {done, copy}, {run, b}}), round_machine());
  EXPECT_NEAR(trace.seconds, 16, 1e-12);
  EXPECT_THAT(waits(trace), testing::SizeIs(4));
  EXPECT_NEAR(span_of(trace, copy, 3).begin, 12, 1e-12);
}

// No wait means no wait: without the wait for its start the copy begins at once.
TEST(Sim, FollowsTheWaitsOfTheSchedule) {
  SimBody body;
  const int a = body.matmul(5), copy = body.d2h(3);
  Schedule schedule = body.schedule({{run, a}, {start, copy}, {done, copy}});
  EXPECT_NEAR(simulate(schedule, round_machine()).seconds, 8, 1e-12);
  schedule.segments[0].lanes[static_cast<int>(Lane::d2h)][0].waits.clear();
  EXPECT_NEAR(simulate(schedule, round_machine()).seconds, 5, 1e-12);
}

TEST(Sim, ADeadlockIsOurMistake) {
  SimBody body;
  const int copy = body.d2h(1);
  Schedule schedule = body.schedule({{start, copy}, {done, copy}});
  schedule.segments[0].lanes[static_cast<int>(Lane::compute)][0].waits.push_back({Lane::d2h, 0});
  EXPECT_THROW(simulate(schedule, round_machine()), std::logic_error);
}

// A gather of 4 s holds a fifth of the cores: compute does 3.2 s of its 10 meanwhile, the other 6.8
// alone.
TEST(Sim, ACollectiveTakesCoresFromCompute) {
  SimBody body(1, 2);
  const int gather = body.gather(4), compute = body.matmul(10);
  const Trace trace = simulate(body.schedule({{start, gather}, {run, compute}, {done, gather}}),
                               round_machine({{"collective_sm_share", 0.2}}));
  EXPECT_NEAR(trace.seconds, 10.8, 1e-12);
  EXPECT_NEAR(span_of(trace, gather).end, 4, 1e-12);
}

// The copy moves 40 bytes/s over the link and 7.5 times as many through HBM: 300 of 1200 bytes/s.
// The add, which could use all of it, does 3 s of its 8 during the 4 s of the copy.
TEST(Sim, CopiesTakeHbmFromStreamingOps) {
  SimBody body;
  const int copy = body.d2h(4), add = body.add(8);
  const Trace trace = simulate(body.schedule({{start, copy}, {run, add}, {done, copy}}),
                               round_machine({{"copy_hbm_bytes", 7.5}}));
  EXPECT_NEAR(trace.seconds, 9, 1e-12);
}

// A matmul asks for a quarter of HBM only: nobody is held back.
TEST(Sim, HbmIsNoLimitWhileItSuffices) {
  SimBody body;
  const int copy = body.d2h(4), compute = body.matmul(8);
  const Trace trace = simulate(body.schedule({{start, copy}, {run, compute}, {done, copy}}),
                               round_machine({{"copy_hbm_bytes", 22.5}}));
  EXPECT_NEAR(trace.seconds, 8, 1e-12);
  EXPECT_NEAR(span_of(trace, copy).end, 4, 1e-12);
}

// Both ask for more than half of HBM (gather 18 x 40 / 1200 = 0.6, add 1): half each. The gather
// takes 3 x 0.6 / 0.5 = 3.6 s, in which the add does 1.8 s of its 5; 3.2 s remain.
TEST(Sim, WhoAsksForMoreThanAnEqualPartGetsThat) {
  SimBody body(1, 2);
  const int gather = body.gather(3), add = body.add(5);
  const Trace trace = simulate(body.schedule({{start, gather}, {run, add}, {done, gather}}),
                               round_machine({{"collective_hbm_bytes", 18}}));
  EXPECT_NEAR(span_of(trace, gather).end, 3.6, 1e-12);
  EXPECT_NEAR(trace.seconds, 6.8, 1e-12);
}

// Network traffic that reaches the device over the host link takes a quarter of it: 2 devices in
// domains of 1, 40 bytes/s through the fabric and 5 over the card; then 80 bytes take 16 s at 5
// bytes/s, of which the link of 20 bytes/s each way carries all. The copy of 200 bytes does 15 of
// the remaining 20 bytes/s.
TEST(Sim, NetworkTrafficSharesTheHostLink) {
  SimBody body(1, 2);
  const int gather = body.gather(2), copy = body.h2d(5);
  const Machine machine =
      round_machine({{"gpus_per_domain", 1}, {"nic_on_host_link", 1}, {"link_h2d_all", 20}});
  const Trace trace = simulate(
      body.schedule({{start, gather}, {start, copy}, {done, copy}, {done, gather}}), machine);
  EXPECT_NEAR(span_of(trace, gather).end, 16, 1e-12);
  EXPECT_NEAR(span_of(trace, copy).end, 200.0 / 15, 1e-9);
}

// FP8: 2 x 100 x 50 operand elements of 2 bytes, 1.5 bytes of traffic each: 25 s of passes; 10^6
// FLOP at 800 FLOP/s: 1250 s. On average (25 + 1250 / 4) / 1275 = 0.26 of HBM: the copy, which asks
// for a half, holds nobody back.
TEST(Sim, APassOverOperandsCountsOnAverage) {
  SimBody body;
  const int copy = body.d2h(100), product = body.matmul_fp8(100, 50);
  const Trace trace = simulate(body.schedule({{start, copy}, {run, product}, {done, copy}}),
                               round_machine({{"copy_hbm_bytes", 15}}));
  EXPECT_NEAR(span_of(trace, copy).end, 100, 1e-9);
  EXPECT_NEAR(trace.seconds, 1275, 1e-9);
}

TEST(Sim, FreeTransfersTakeNoTimeAndStillCount) {
  SimBody body;
  const int copy = body.d2h(8), compute = body.matmul(5);
  SimOptions options;
  options.free_transfers = true;
  const Trace trace = simulate(body.schedule({{start, copy}, {run, compute}, {done, copy}}),
                               round_machine(), options);
  EXPECT_NEAR(trace.seconds, 5, 1e-12);
  EXPECT_EQ(trace.bytes_moved[static_cast<int>(Lane::d2h)], 320);
}

// Shares of memory bandwidth as on a large GPU: a quarter for a collective, a thirtieth for a copy.
// The order on each lane is fixed, so there are no scheduling anomalies; what remains, and is
// bounded here by 1 % for bodies that stream half of their time, is that traffic made denser falls
// on a streaming op where it would have outlasted it and met a matmul.
TEST(Sim, FasterLinksAndFabricsNeverLengthenAStep) {
  std::mt19937 random(20240229);
  const Machine machine = contended_machine();
  for (int round = 0; round < 100; ++round) {
    const Schedule schedule = random_schedule(random, 3);
    for (const auto& keys : {std::vector<std::string>{"link_h2d_all", "link_d2h_all"},
                             std::vector<std::string>{"nic_bandwidth", "nvlink_bandwidth"}}) {
      double shortest = std::numeric_limits<double>::infinity();
      for (double factor = 0.25; factor < 2.1; factor *= 1.4) {
        Machine faster = machine;
        for (const std::string& key : keys)
          faster.figures[key].value *= factor;
        const double seconds = simulate(schedule, faster).seconds;
        EXPECT_LE(seconds, shortest * 1.01) << keys[0] << " x " << factor << ", round " << round;
        shortest = std::min(shortest, seconds);
      }
    }
  }
}

}  // namespace
}  // namespace spillway
