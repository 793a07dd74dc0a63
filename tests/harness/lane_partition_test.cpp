// The partition of the compute lane, on traces made by hand.
#include "harness/lane_partition.h"

#include <gmock/gmock.h>

namespace spillway {
namespace {

Span ran(Lane lane, int op, double begin, double end) {
  Span span;
  span.lane = lane;
  span.op = op;
  span.begin = begin;
  span.end = end;
  return span;
}

Span stood(Lane on, int op, double begin, double end) {
  Span span = ran(Lane::compute, op, begin, end);
  span.kind = SpanKind::wait;
  span.on = on;
  return span;
}

double sum_of_parts(const LanePartition& partition) {
  double sum = partition.idle;
  for (const BusyTime& time : partition.busy)
    sum += time.seconds;
  for (const WaitTime& wait : partition.waits)
    sum += wait.seconds;
  return sum;
}

TEST(LanePartition, TellsWhatRanBesideAnOp) {
  Trace trace;
  trace.seconds = 10;
  trace.spans = {ran(Lane::compute, 0, 0, 6), ran(Lane::collective, 1, 1, 3),
                 ran(Lane::d2h, 2, 2, 4), ran(Lane::h2d, 3, 3.5, 4.5)};
  const LanePartition partition = partition_compute_lane(trace);
  ASSERT_THAT(partition.busy, testing::SizeIs(1));
  const BusyTime& time = partition.busy.front();
  EXPECT_EQ(time.runs, 1);
  EXPECT_DOUBLE_EQ(time.seconds, 6);
  EXPECT_DOUBLE_EQ(time.beside_collectives, 1);  // 1 to 2
  EXPECT_DOUBLE_EQ(time.beside_both, 1);         // 2 to 3
  EXPECT_DOUBLE_EQ(time.beside_copies, 1.5);     // 3 to 4.5, two directions count once
  EXPECT_DOUBLE_EQ(partition.idle, 4);
}

TEST(LanePartition, ChargesAWaitToWhatKeptTheLaneBusy) {
  Trace trace;
  trace.seconds = 9;
  // Op 2 is awaited from 2 on, but op 1 is ahead of it in the queue; the last second is nobody's.
  trace.spans = {ran(Lane::compute, 0, 0, 2), ran(Lane::collective, 1, 0, 5),
                 ran(Lane::collective, 2, 5, 7), stood(Lane::collective, 2, 2, 8),
                 ran(Lane::compute, 3, 8, 9)};
  const LanePartition partition = partition_compute_lane(trace);
  ASSERT_THAT(partition.waits, testing::SizeIs(2));
  EXPECT_EQ(partition.waits[0].op, 1);
  EXPECT_DOUBLE_EQ(partition.waits[0].seconds, 3);
  EXPECT_EQ(partition.waits[1].op, 2);
  EXPECT_DOUBLE_EQ(partition.waits[1].seconds, 3);
  EXPECT_DOUBLE_EQ(sum_of_parts(partition), 9);
}

TEST(LanePartition, CountsEveryRepeat) {
  Trace trace;
  trace.seconds = 40;
  trace.spans = {ran(Lane::compute, 0, 0, 6), ran(Lane::d2h, 1, 4, 9), stood(Lane::d2h, 1, 6, 9)};
  for (Span& span : trace.spans) {
    span.repeats = 4;
    span.period_iterations = 1;
    span.period = 10;
  }
  const LanePartition partition = partition_compute_lane(trace);
  ASSERT_THAT(partition.busy, testing::SizeIs(1));
  EXPECT_EQ(partition.busy[0].runs, 4);
  EXPECT_DOUBLE_EQ(partition.busy[0].seconds, 24);
  EXPECT_DOUBLE_EQ(partition.busy[0].beside_copies, 8);
  ASSERT_THAT(partition.waits, testing::SizeIs(1));
  EXPECT_DOUBLE_EQ(partition.waits[0].seconds, 12);
  EXPECT_DOUBLE_EQ(partition.idle, 4);
}

}  // namespace
}  // namespace spillway
