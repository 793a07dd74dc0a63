// What host copies wait for under each mode of streams, and what that does to a simulated step;
// both derived by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/executor.h"
#include "harness/race.h"
#include "tests/harness/sim_support.h"
#include "tests/support/brute_force.h"
#include "tests/support/tiny_program.h"

namespace spillway {
namespace {

using testing::ElementsAre;

using enum StepKind;

const LaneStep& copy_step(const Schedule& schedule, Lane lane, size_t k, size_t segment = 0) {
  return schedule.segments[segment].lanes[index_of(lane)][k];
}

// One body: y = x + x; u = x + x; y to the host and back into z; w = u + z.
Program round_trip() {
  TinyBuilder b("round trip");
  const TensorId x = b.persistent("x", 1), y = b.local("y", Role::in_flight),
                 z = b.local("z", Role::in_flight), u = b.local("u"), w = b.carried("w", 3),
                 host = b.host("host", 3);
  b.segment("body", 3);
  b.add(all(x), all(x), all(y));                                  // 0
  b.add(all(x), all(x), all(u));                                  // 1
  b.op(OpKind::copy_d2h, {all(y)}, {slice(host, 1, 0)}, "out");   // 2
  b.op(OpKind::copy_h2d, {slice(host, 1, 0)}, {all(z)}, "back");  // 3
  b.add(all(u), all(z), slice(w, 1, 0));                          // 4
  return b.program();
}
const BodyOrder round_trip_order = {{run, 0},   {run, 1},  {start, 2}, {done, 2},
                                    {start, 3}, {done, 3}, {run, 4}};

TEST(StartWaits, AtTheirPositionCopiesWaitForTheirStarts) {
  const Schedule schedule = lay_out(round_trip(), {round_trip_order});
  EXPECT_THAT(copy_step(schedule, Lane::d2h, 0).waits, ElementsAre(Wait{Lane::compute, 2}));
  EXPECT_THAT(copy_step(schedule, Lane::h2d, 0).waits, ElementsAre(Wait{Lane::compute, 4}));
}

// Out: for what made y, not for u. Back: for the copy it reads from, and for z, which comes into
// being at its start.
TEST(StartWaits, PreciseOnesWaitForProducersAndAllocation) {
  const Schedule schedule = lay_out(round_trip(), {round_trip_order}, Streams::precise);
  EXPECT_THAT(copy_step(schedule, Lane::d2h, 0).waits, ElementsAre(Wait{Lane::compute, 0}));
  EXPECT_THAT(copy_step(schedule, Lane::h2d, 0).waits,
              ElementsAre(Wait{Lane::compute, 4}, Wait{Lane::d2h, 0}));
}

// Starts side by side allocate at the first of them.
TEST(StartWaits, PreciseReloadsWaitForTheFirstOfARunOfStarts) {
  TinyBuilder b("reloads");
  const TensorId host = b.host("host", 2), y = b.local("y"), z = b.local("z"),
                 w = b.carried("w", 1);
  b.segment("body", 1);
  b.op(OpKind::copy_h2d, {slice(host, 0, 0)}, {all(y)});  // 0
  b.op(OpKind::copy_h2d, {slice(host, 0, 1)}, {all(z)});  // 1
  b.add(all(y), all(z), all(w));                          // 2
  const BodyOrder order = {{start, 0}, {start, 1}, {done, 0}, {done, 1}, {run, 2}};
  const Schedule schedule = lay_out(b.program(), {order}, Streams::precise);
  EXPECT_THAT(copy_step(schedule, Lane::h2d, 1).waits, ElementsAre(Wait{Lane::compute, 0}));
}

// What is written over must have been read where compute knows of its end: at the done.
TEST(StartWaits, PreciseCopiesThatOverwriteWaitForTheDone) {
  TinyBuilder b("overwrite");
  const TensorId x = b.persistent("x", 1), u = b.local("u"), host = b.host("host", 1);
  b.segment("body", 1);
  b.op(OpKind::copy_d2h, {all(x)}, {all(host)}, "first");   // 0
  b.add(all(x), all(x), all(u));                            // 1
  b.op(OpKind::copy_d2h, {all(x)}, {all(host)}, "second");  // 2
  const BodyOrder order = {{start, 0}, {done, 0}, {run, 1}, {start, 2}, {done, 2}};
  const Schedule schedule = lay_out(b.program(), {order}, Streams::precise);
  EXPECT_THAT(copy_step(schedule, Lane::d2h, 1).waits, ElementsAre(Wait{Lane::compute, 1}));
  const std::optional<Race> race = find_race(schedule, plan_memory(schedule));
  EXPECT_FALSE(race) << race->message;
}

// What a rotated drain reads was written one iteration before: it waits for its iteration to have
// begun, that is for the first step, wherever its start stands.
TEST(StartWaits, PreciseDrainsWaitForTheirIteration) {
  TinyBuilder b("drain");
  const TensorId x = b.persistent("x", 1), ring = b.ring("ring", 2), u = b.local("u"),
                 host = b.host("host", 4);
  b.segment("body", 4);
  b.add(all(x), all(x), slice(ring, 1, 0));                               // 0
  b.add(all(x), all(x), all(u));                                          // 1
  b.op(OpKind::copy_d2h, {slice(ring, 1, -1)}, {slice(host, 1, 0)}, "");  // 2
  const BodyOrder order = {{run, 0}, {run, 1}, {start, 2}, {done, 2}};
  const auto waits = [&](Streams streams) {
    return copy_step(lay_out(b.program(), {order}, streams), Lane::d2h, 0).waits;
  };
  EXPECT_THAT(waits(Streams::position), ElementsAre(Wait{Lane::compute, 2}));
  EXPECT_THAT(waits(Streams::precise), ElementsAre(Wait{Lane::compute, 0}));
}

// Six copies out and back: the first and the fifth share a side stream, the second and the sixth.
TEST(StartWaits, AsInXlaFourStreamsAreDealtOutInTurn) {
  SimBody body;
  for (int k = 0; k < 4; ++k)
    body.d2h(1);
  body.h2d(1);  // with the first
  body.d2h(1);  // with the second, on the same lane
  BodyOrder order;
  for (int op = 0; op < 6; ++op)
    order.push_back({start, op});
  for (int op = 0; op < 6; ++op)
    order.push_back({done, op});
  const Schedule schedule = lay_out(body.program(), {order}, Streams::xla);
  EXPECT_THAT(copy_step(schedule, Lane::h2d, 0).waits,
              ElementsAre(Wait{Lane::compute, 4}, Wait{Lane::d2h, 0}));
  for (int k = 0; k < 5; ++k)
    EXPECT_THAT(copy_step(schedule, Lane::d2h, static_cast<size_t>(k)).waits,
                ElementsAre(Wait{Lane::compute, k < 4 ? k : 5}));
}

// Streams are dealt out as the program lists the copies, and serve them as they are issued.
TEST(StartWaits, AsInXlaTheOrderOnAStreamIsThatOfTheStarts) {
  SimBody body;
  for (int k = 0; k < 4; ++k)
    body.d2h(1);
  body.h2d(1);
  const BodyOrder order = {{start, 4}, {start, 3}, {start, 0}, {start, 1}, {start, 2},
                           {done, 0},  {done, 1},  {done, 2},  {done, 3},  {done, 4}};
  const Schedule schedule = lay_out(body.program(), {order}, Streams::xla);
  EXPECT_THAT(copy_step(schedule, Lane::h2d, 0).waits, ElementsAre(Wait{Lane::compute, 0}));
  EXPECT_THAT(copy_step(schedule, Lane::d2h, 0).waits, ElementsAre(Wait{Lane::compute, 1}));
  EXPECT_THAT(copy_step(schedule, Lane::d2h, 1).waits,
              ElementsAre(Wait{Lane::compute, 2}, Wait{Lane::h2d, 0}));
}

double seconds_of(const Schedule& schedule) {
  return make_sim_executor(schedule, round_machine(), {})->step().seconds;
}

double seconds_of(const SimBody& body, const BodyOrder& order, Streams streams) {
  return seconds_of(lay_out(body.program(), {order}, streams));
}

// Compute 1 + 4 + 1 s; a copy of 3 s issued after the first five. From there it ends at 8; from the
// end of the iteration's first step it is over at 4 and nobody waits.
TEST(StartWaits, PreciseCopiesBeginBeforeTheComputeTheyAreIssuedAfter) {
  SimBody body;
  body.matmul(1), body.matmul(4), body.matmul(1), body.d2h(3);
  const BodyOrder order = {{run, 0}, {run, 1}, {start, 3}, {run, 2}, {done, 3}};
  EXPECT_DOUBLE_EQ(seconds_of(body, order, Streams::position), 8);
  EXPECT_DOUBLE_EQ(seconds_of(body, order, Streams::xla), 8);
  EXPECT_DOUBLE_EQ(seconds_of(body, order, Streams::precise), 6);
}

// Out 4 + 1 + 1 + 1 s, back 5 s beside it: 7 s. On a common side stream the way back waits for the
// first way out: 4 + 5 s.
TEST(StartWaits, AsInXlaCopiesOfASideStreamWaitForEachOther) {
  SimBody body;
  body.d2h(4), body.d2h(1), body.d2h(1), body.d2h(1), body.h2d(5), body.matmul(1);
  const BodyOrder order = {{start, 0}, {start, 1}, {start, 2}, {start, 3}, {start, 4}, {run, 5},
                           {done, 0},  {done, 1},  {done, 2},  {done, 3},  {done, 4}};
  EXPECT_DOUBLE_EQ(seconds_of(body, order, Streams::position), 7);
  EXPECT_DOUBLE_EQ(seconds_of(body, order, Streams::precise), 7);
  EXPECT_DOUBLE_EQ(seconds_of(body, order, Streams::xla), 9);
}

// Every mode on hand-built programs under random orders: free of races as it stands, and by brute
// force with what others imply dropped.
TEST(StartWaits, NoModeHasARace) {
  for (const NamedProgram& tiny : tiny_programs(5))
    for (unsigned seed = 0; seed < 6; ++seed)
      for (const Streams streams : {Streams::position, Streams::precise, Streams::xla}) {
        SCOPED_TRACE(tiny.name + ", " + name_of(streams) + ", seed " + std::to_string(seed));
        std::mt19937 random(seed);
        std::vector<BodyOrder> orders;
        for (const Segment& segment : tiny.program.segments)
          orders.push_back(random_order(tiny.program, segment, random));
        const Schedule schedule = lay_out(tiny.program, orders, streams);
        const Plan plan = plan_memory(schedule);
        const Proven as_it_stands = prove(schedule, plan);
        ASSERT_FALSE(as_it_stands.race) << as_it_stands.race->message;
        EXPECT_EQ(dump(as_it_stands.schedule), dump(schedule));
        const Schedule needed = drop_implied_waits(schedule, plan);
        EXPECT_EQ(brute_force_race(needed, plan), "");
      }
}

}  // namespace
}  // namespace spillway
