// Dependencies, lanes, waits, lifetimes and merged bodies, against hand-written expectations.
#include "harness/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_program.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using enum StepKind;

const std::vector<LaneStep>& lane_of_segment(const Schedule& schedule, size_t segment, Lane lane) {
  return schedule.segments[segment].lanes[static_cast<size_t>(lane)];
}

std::vector<std::string> names_of(const Program& program, const std::vector<TensorId>& tensors) {
  std::vector<std::string> names;
  for (const TensorId id : tensors)
    names.push_back(program.at(id).name);
  return names;
}

TEST(Dependencies, ReadAfterWriteAfterReadAndWriteAfterWrite) {
  TinyBuilder b("raw");
  const TensorId x = b.persistent("x", 1), y = b.local("y"), z = b.local("z");
  b.segment("body", 1);
  b.add(all(x), all(x), all(y));                             // 0 writes y
  b.add(all(y), all(x), all(z));                             // 1 reads y, x
  b.op(OpKind::add, {all(x), all(x)}, {all(x)}, "x");        // 2 after both read x
  b.op(OpKind::add, {all(z), all(z)}, {all(y)}, "y again");  // 3 after 0 wrote and 1 read y
  const auto before = dependencies(b.program(), b.program().segments[0]);
  EXPECT_THAT(before, ElementsAre(IsEmpty(), ElementsAre(0), ElementsAre(0, 1), ElementsAre(0, 1)));
}

TEST(Dependencies, SlicesConflictOnlyWhereTheyMeetInOneIteration) {
  TinyBuilder b("slices");
  const TensorId stack = b.carried("stack", 12), ring = b.ring("ring", 2), out = b.local("out");
  b.segment("body", 5);
  const auto conflict = [&](Operand written, Operand read) {
    Segment segment{"body", Pass::other, 5, -1, {}};
    Op write, then;
    write.outputs = {written};
    then.inputs = {read};
    then.outputs = {all(out)};
    segment.ops = {write, then};
    return !dependencies(b.program(), segment)[1].empty();
  };
  EXPECT_TRUE(conflict(slice(stack, 1, 0), slice(stack, 1, 0)));
  EXPECT_FALSE(conflict(slice(stack, 1, 1), slice(stack, 1, 0)));
  EXPECT_TRUE(conflict(slice(stack, 1, 1), all(stack)));
  EXPECT_TRUE(conflict(slice(stack, 1, 0), slice(stack, -1, 4)));    // meet in iteration 2
  EXPECT_FALSE(conflict(slice(stack, 1, 0), slice(stack, -1, 5)));   // 2 i = 5 has no iteration
  EXPECT_FALSE(conflict(slice(stack, 1, 0), slice(stack, -1, 10)));  // meet in iteration 5 of 5
  EXPECT_FALSE(conflict(slice(ring, 1, 0), slice(ring, 1, 1)));      // other slot, always
  EXPECT_TRUE(conflict(slice(ring, 1, 0), slice(ring, 1, 2)));       // two on: the same slot
  EXPECT_TRUE(conflict(slice(ring, 1, 0), slice(ring, 0, 1)));       // meet in odd iterations
}

// One body: y = x + x; y to the host, back into z; u = x + x meanwhile; w = u + z.
struct Round {
  Round() : b("round") {
    x = b.persistent("x", 1);
    y = b.local("y", Role::in_flight);
    z = b.local("z", Role::in_flight);
    u = b.local("u");
    w = b.carried("w", 3);
    host = b.host("host", 3);
    b.segment("body", 3);
    b.add(all(x), all(x), all(y));                                  // 0
    b.op(OpKind::copy_d2h, {all(y)}, {slice(host, 1, 0)}, "out");   // 1
    b.op(OpKind::copy_h2d, {slice(host, 1, 0)}, {all(z)}, "back");  // 2
    b.add(all(x), all(x), all(u));                                  // 3
    b.add(all(u), all(z), slice(w, 1, 0));                          // 4
  }
  TinyBuilder b;
  TensorId x, y, z, u, w, host;
};

TEST(LayOut, PutsStartsAndDonesOnTheComputeLane) {
  Round r;
  const BodyOrder order = {{run, 0}, {start, 1}, {done, 1}, {start, 2},
                           {run, 3}, {done, 2},  {run, 4}};
  const Schedule schedule = lay_out(r.b.program(), {order});
  const auto& compute = lane_of_segment(schedule, 0, Lane::compute);
  ASSERT_EQ(compute.size(), 7u);
  for (size_t k = 0; k < order.size(); ++k) {
    EXPECT_EQ(compute[k].kind, order[k].kind) << k;
    EXPECT_EQ(compute[k].op, order[k].op) << k;
  }
  EXPECT_THAT(compute[2].waits, ElementsAre(Wait{Lane::d2h, 0}));
  EXPECT_THAT(compute[5].waits, ElementsAre(Wait{Lane::h2d, 0}));
  const auto& d2h = lane_of_segment(schedule, 0, Lane::d2h);
  ASSERT_EQ(d2h.size(), 1u);
  EXPECT_THAT(d2h[0].waits, ElementsAre(Wait{Lane::compute, 1}));
  EXPECT_THAT(lane_of_segment(schedule, 0, Lane::h2d)[0].waits,
              ElementsAre(Wait{Lane::compute, 3}));
}

TEST(LayOut, LocalsLiveFromFirstTouchToLast) {
  Round r;
  const Schedule schedule =
      lay_out(r.b.program(),
              {{{run, 0}, {start, 1}, {done, 1}, {start, 2}, {run, 3}, {done, 2}, {run, 4}}});
  const auto& compute = lane_of_segment(schedule, 0, Lane::compute);
  EXPECT_THAT(compute[0].allocate, ElementsAre(r.y));
  EXPECT_THAT(compute[2].release, ElementsAre(r.y));  // the copy is done
  EXPECT_THAT(compute[3].allocate, ElementsAre(r.z));
  EXPECT_THAT(compute[4].allocate, ElementsAre(r.u));
  EXPECT_THAT(compute[6].release, ElementsAre(r.z, r.u));
  EXPECT_THAT(schedule.segments[0].enter_allocate, ElementsAre(r.w));
  EXPECT_THAT(schedule.segments[0].exit_release, ElementsAre(r.w));
}

TEST(LayOut, NeighbouringStartsAndDonesShareTheirMoments) {
  TinyBuilder b("pair");
  const TensorId host = b.host("host", 4), p = b.local("p"), q = b.local("q"), s = b.local("s");
  const TensorId x = b.persistent("x", 1);
  b.segment("body", 2);
  b.op(OpKind::copy_h2d, {slice(host, 1, 0)}, {all(p)}, "p");  // 0
  b.op(OpKind::copy_h2d, {slice(host, 1, 1)}, {all(q)}, "q");  // 1
  b.add(all(x), all(x), all(s));                               // 2
  const Schedule schedule =
      lay_out(b.program(), {{{start, 0}, {start, 1}, {run, 2}, {done, 0}, {done, 1}}});
  const auto& compute = lane_of_segment(schedule, 0, Lane::compute);
  EXPECT_THAT(compute[0].allocate, ElementsAre(p, q));
  EXPECT_THAT(compute[1].allocate, IsEmpty());
  EXPECT_THAT(compute[3].release, IsEmpty());
  EXPECT_THAT(compute[4].release, ElementsAre(p, q));
  EXPECT_THAT(compute[2].allocate, ElementsAre(s));  // never read, but alive around its producer
  EXPECT_THAT(compute[2].release, ElementsAre(s));
}

TEST(LayOut, StepTensorsLiveFromFirstSegmentToLast) {
  const Program program = kept_stack(5);
  const Schedule schedule = adjacent_schedule(program);  // embed forward head backward optimizer
  const auto enter = [&](size_t s) {
    return names_of(program, schedule.segments[s].enter_allocate);
  };
  const auto exit = [&](size_t s) { return names_of(program, schedule.segments[s].exit_release); };
  EXPECT_THAT(enter(0), ElementsAre("hidden"));
  EXPECT_THAT(enter(1), ElementsAre("kept"));
  EXPECT_THAT(enter(2), ElementsAre("d_hidden"));
  EXPECT_THAT(exit(2), ElementsAre("hidden"));
  EXPECT_THAT(exit(3), ElementsAre("d_hidden", "kept"));
}

TEST(LayOut, RefusesOrdersThatAreNotOne) {
  const std::vector<BodyOrder> wrong = {
      {{run, 0}, {start, 1}, {done, 1}, {start, 2}, {done, 2}, {run, 3}},  // 4 missing
      {{run, 0}, {run, 0}, {start, 1}, {done, 1}, {start, 2}, {done, 2}, {run, 3}, {run, 4}},
      {{run, 0}, {run, 1}, {start, 2}, {done, 2}, {run, 3}, {run, 4}},               // a copy run
      {{run, 0}, {done, 1}, {start, 1}, {start, 2}, {done, 2}, {run, 3}, {run, 4}},  // done first
      {{run, 0}, {start, 1}, {start, 2}, {done, 2}, {run, 3}, {run, 4}},             // no done
      {{start, 1}, {run, 0}, {done, 1}, {start, 2}, {done, 2}, {run, 3}, {run, 4}},  // y not there
      {{run, 0}, {start, 1}, {start, 2}, {done, 1}, {done, 2}, {run, 3}, {run, 4}},  // host not
                                                                                     // there
      {{run, 0}, {start, 1}, {done, 1}, {start, 2}, {run, 3}, {run, 4}, {done, 2}},  // z not there
      {{run, 0}, {start, 1}, {done, 1}, {start, 2}, {done, 2}, {run, 3}, {run, 5}},
  };
  for (size_t k = 0; k < wrong.size(); ++k) {
    EXPECT_THROW(lay_out(Round().b.program(), {wrong[k]}), std::logic_error) << k;
  }
  EXPECT_THROW(lay_out(Round().b.program(), {}), std::logic_error);
}

// Two gathers of one buffer: the queue's own order keeps them apart, no done in between is needed.
TEST(LayOut, OneQueueOrdersItsOwnOps) {
  TinyBuilder b("fifo");
  const TensorId host = b.host("host", 2), x = b.persistent("x", 2), z = b.local("z");
  b.segment("body", 2);
  b.op(OpKind::copy_d2h, {slice(x, 1, 0)}, {slice(host, 1, 0)}, "first");
  b.op(OpKind::copy_d2h, {slice(x, 1, 0)}, {slice(host, 1, 0)}, "second");
  b.op(OpKind::copy_h2d, {slice(host, 1, 0)}, {all(z)}, "back");
  const BodyOrder fifo = {{start, 0}, {start, 1}, {done, 0}, {done, 1}, {start, 2}, {done, 2}};
  EXPECT_NO_THROW(lay_out(b.program(), {fifo}));
  const BodyOrder swapped = {{start, 1}, {start, 0}, {done, 0}, {done, 1}, {start, 2}, {done, 2}};
  EXPECT_THROW(lay_out(b.program(), {swapped}), std::logic_error);
  const BodyOrder early = {{start, 0}, {start, 1}, {done, 0}, {start, 2}, {done, 1}, {done, 2}};
  EXPECT_THROW(lay_out(b.program(), {early}), std::logic_error);
}

TEST(Merge, JoinsNeighboursThatRunOnce) {
  TinyBuilder b("merge");
  const TensorId x = b.persistent("x", 4);
  const auto body = [&](const std::string& name, int64_t trips, Pass pass) {
    b.segment(name, trips, pass);
    b.op(OpKind::add, {slice(x, 0, 0), slice(x, 0, 1)}, {slice(x, 0, 2)}, "op");
  };
  body("a", 1, Pass::forward);
  body("loop", 3, Pass::forward);
  body("b", 1, Pass::forward);
  body("c", 1, Pass::other);
  body("d", 1, Pass::backward);
  body("back", 3, Pass::backward);
  b.program().segments.back().forward_segment = 1;
  const Program merged = merge_straight_line(b.program());
  ASSERT_EQ(merged.segments.size(), 4u);
  EXPECT_EQ(merged.segments[0].name, "a");
  EXPECT_EQ(merged.segments[2].name, "b+c+d");
  EXPECT_EQ(merged.segments[2].pass, Pass::other);
  EXPECT_EQ(merged.segments[3].forward_segment, 1);
  std::vector<std::string> names;
  for (const Op& op : merged.segments[2].ops)
    names.push_back(op.name);
  EXPECT_THAT(names, ElementsAre("op", "c/op", "d/op"));
  EXPECT_EQ(merge_straight_line(merged).segments.size(), 4u);
}

TEST(Dump, ShowsLanesWaitsAndLifetimes) {
  const std::string listing = dump(adjacent_schedule(offloaded_stack(5)));
  EXPECT_NE(listing.find("segment forward x5"), std::string::npos);
  EXPECT_NE(listing.find("done to.q.host wait d2h:0"), std::string::npos) << listing;
  EXPECT_NE(listing.find("enter: hidden"), std::string::npos) << listing;
}

}  // namespace
}  // namespace spillway
