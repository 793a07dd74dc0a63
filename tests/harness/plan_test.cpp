// The memory plan against hand arithmetic and against a position-by-position look at every byte.
#include "harness/plan.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_program.h"

namespace spillway {
namespace {

int64_t of(const std::array<int64_t, role_count>& bytes, Role role) {
  return bytes[static_cast<size_t>(role)];
}

int64_t sum_of(const std::array<int64_t, role_count>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

// Slices are 64 bytes. Persistent: x, start 1 slice each, weight, gradient 5 each. Alive in the
// backward body: kept 5, d 1, and t 1 between its producer and last reader.
TEST(Plan, KeptStackByHand) {
  const Plan plan = plan_memory(adjacent_schedule(kept_stack(5)));
  const int64_t persistent = 12 * 64;
  // The fullest moment is in the forward body: kept 5, hidden's ring of 2, a and b.
  EXPECT_EQ(plan.live_peak, persistent + (5 + 2 + 2) * 64);
  EXPECT_EQ(plan.device_bytes, plan.live_peak);
  EXPECT_EQ(plan.holes, 0);
  EXPECT_EQ(plan.static_bytes, persistent + 5 * 64);
  EXPECT_EQ(of(plan.peak_by_role, Role::parameter), 7 * 64);
  EXPECT_EQ(of(plan.peak_by_role, Role::gradient), 5 * 64);
  EXPECT_EQ(of(plan.peak_by_role, Role::kept), 5 * 64);
  EXPECT_EQ(of(plan.peak_by_role, Role::activation), 4 * 64);
  EXPECT_EQ(plan.host_bytes, 0);
  EXPECT_EQ(plan.largest.size(), 5u);
}

TEST(Plan, CurveFollowsTheComputeLane) {
  const Schedule schedule = adjacent_schedule(kept_stack(5));
  const Plan plan = plan_memory(schedule);
  // embed 1, forward 4, head 2, backward 3, optimizer 1 steps.
  ASSERT_EQ(plan.curve.size(), 11u);
  const int64_t persistent = 12 * 64;
  const int64_t above[] = {2, 8, 9, 9, 8, 9, 9, 7, 7, 7, 0};  // slices beside the persistent ones
  for (size_t p = 0; p < plan.curve.size(); ++p) {
    EXPECT_EQ(sum_of(plan.curve[p].bytes), persistent + above[p] * 64) << p;
  }
  EXPECT_EQ(plan.curve[1].segment, 1);
  EXPECT_EQ(plan.curve[1].step, 0);
  EXPECT_EQ(plan.curve[4].step, 3);
}

TEST(Plan, HostBytesAreTheExactSum) {
  TinyBuilder b("host");
  Tensor odd;
  odd.name = "odd";
  odd.shape = {5};  // 20 bytes a slice
  odd.slices = 3;
  odd.space = Space::host;
  odd.extent = Extent::persistent;
  const TensorId first = b.add_tensor(odd);
  odd.name = "odd.too";
  const TensorId second = b.add_tensor(odd);
  b.segment("nothing", 1);
  const Plan plan = plan_memory(lay_out(b.program(), {{}}));
  EXPECT_EQ(plan.host_bytes, 120);
  EXPECT_EQ(plan.host_arena_bytes, 128);
  EXPECT_EQ(plan.offset[static_cast<size_t>(first)], 0);
  EXPECT_EQ(plan.offset[static_cast<size_t>(second)], 64);
  EXPECT_EQ(plan.device_bytes, 0);
}

TEST(Plan, UntouchedTensorsGetNoPlace) {
  TinyBuilder b("dead");
  const TensorId x = b.persistent("x", 1), y = b.local("y"), dead = b.local("dead");
  const TensorId unused = b.carried("unused", 9);
  b.segment("body", 1);
  b.add(all(x), all(x), all(y));
  const Plan plan = plan_memory(lay_out(b.program(), {{{StepKind::run, 0}}}));
  EXPECT_EQ(plan.offset[static_cast<size_t>(dead)], -1);
  EXPECT_EQ(plan.offset[static_cast<size_t>(unused)], -1);
  EXPECT_EQ(plan.device_bytes, 128);
}

TEST(Plan, LargestAreSortedAndAliveAtThePeak) {
  TinyBuilder b("largest");
  const auto sized = [&](const std::string& name, int64_t slices) {
    return b.persistent(name, slices);
  };
  const TensorId a = sized("a", 1), c = sized("c", 7), d = sized("d", 3), e = sized("e", 9);
  const TensorId f = sized("f", 4), g = sized("g", 8);
  b.segment("body", 1);
  b.add(all(a), all(a), all(a));
  const Plan plan = plan_memory(lay_out(b.program(), {{{StepKind::run, 0}}}));
  EXPECT_THAT(plan.largest, testing::ElementsAre(e, g, c, f, d));
}

// x, y and z are alive at the second op, the peak; then z is summed into x, and w comes later.
TEST(Plan, RaggedBytesAreThoseAliveAtThePeak) {
  TinyBuilder b("ragged");
  const TensorId x = b.persistent("x", 1), y = b.local("y"), z = b.local("z"), w = b.local("w");
  b.program().at(y).ragged = b.program().at(w).ragged = true;
  b.segment("body", 1);
  b.add(all(x), all(x), all(y));
  b.add(all(y), all(y), all(z));
  b.op(OpKind::add, {all(z), all(z)}, {all(x)}, "back");
  b.add(all(x), all(x), all(w));
  b.op(OpKind::add, {all(w), all(w)}, {all(x)}, "again");
  const Plan plan = plan_memory(adjacent_schedule(b.program()));
  EXPECT_EQ(plan.live_peak, 3 * 64);
  EXPECT_EQ(plan.peak_ragged_bytes, 64);
  EXPECT_EQ(plan_memory(adjacent_schedule(kept_stack(5))).peak_ragged_bytes, 0);
}

// Every pair of tensors alive at one position, from the schedule's own lists, has disjoint bytes.
void expect_disjoint(const Schedule& schedule, const Plan& plan) {
  const Program& program = schedule.program;
  std::vector<bool> alive(program.tensors.size());
  for (size_t id = 0; id < alive.size(); ++id) {
    alive[id] = program.tensors[id].extent == Extent::persistent;
  }
  const auto set = [&](const std::vector<TensorId>& tensors, bool value) {
    for (const TensorId id : tensors)
      alive[static_cast<size_t>(id)] = value;
  };
  for (const SegmentSchedule& segment : schedule.segments) {
    set(segment.enter_allocate, true);
    for (const LaneStep& step : segment.lanes[static_cast<size_t>(Lane::compute)]) {
      set(step.allocate, true);
      std::vector<std::pair<int64_t, int64_t>> ranges;
      for (size_t id = 0; id < alive.size(); ++id) {
        if (!alive[id] || program.tensors[id].space == Space::host) continue;
        EXPECT_EQ(plan.offset[id] % arena_alignment, 0);
        ranges.emplace_back(plan.offset[id], plan.offset[id] + program.tensors[id].bytes());
      }
      std::sort(ranges.begin(), ranges.end());
      EXPECT_LE(ranges.back().second, plan.device_bytes);
      for (size_t k = 1; k < ranges.size(); ++k) {
        EXPECT_GE(ranges[k].first, ranges[k - 1].second);
      }
      set(step.release, false);
    }
    set(segment.exit_release, false);
  }
}

TEST(Plan, TinySchedulesAreSoundAndTight) {
  for (const auto& [name, program] : tiny_programs(5)) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const Schedule schedule = random_schedule(program, seed);
      const Plan plan = plan_memory(schedule);
      expect_disjoint(schedule, plan);
      // Shards of 32 bytes are padded to 64; nothing else may be lost.
      EXPECT_LE(plan.holes, name == "sharded" ? 10 * 32 : 0) << name << " seed " << seed;
      EXPECT_EQ(plan.device_bytes, sum_of(plan.peak_by_role) + plan.holes);
    }
  }
}

}  // namespace
}  // namespace spillway
