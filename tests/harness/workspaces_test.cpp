// Scratch memory of kernels: planned beside what lives at its op's place, proven, aligned.
#include "harness/workspaces.h"

#include <gtest/gtest.h>

#include "harness/plan.h"
#include "harness/race.h"
#include "tests/support/tiny_program.h"

namespace spillway {
namespace {

constexpr int64_t wanted = 1000;

int64_t for_additions(const Program&, const Op& op) { return op.kind == OpKind::add ? wanted : 0; }

TEST(Workspaces, ArePlannedWhereTheirOpRunsAndProven) {
  for (const NamedProgram& named : tiny_programs(3)) {
    const Schedule plain = overlapped_schedule(named.program);
    const Schedule schedule = with_workspaces(plain, for_additions);
    const Plan before = plan_memory(plain), plan = plan_memory(schedule);
    // At most one lives at a time: rows of the peak have 1000 bytes and the room to align them.
    EXPECT_EQ(before.peak_by_role[static_cast<size_t>(Role::workspace)], 0) << named.name;
    EXPECT_EQ(plan.peak_by_role[static_cast<size_t>(Role::workspace)], wanted + 256 - 64);
    EXPECT_LE(plan.live_peak, before.live_peak + wanted + 256 - 64);
    const Proven proven = drop_and_prove(schedule, plan);
    EXPECT_FALSE(proven.race) << proven.race->message;
  }
}

TEST(Workspaces, BelongToTheirOpAloneAndAreAligned) {
  const Schedule schedule = with_workspaces(overlapped_schedule(kept_stack(3)), for_additions);
  const Plan plan = plan_memory(schedule);
  const std::vector<std::byte> device(static_cast<size_t>(plan.device_bytes) + 64);
  auto* base = const_cast<std::byte*>(device.data());
  base += (64 - reinterpret_cast<uintptr_t>(base) % 64) % 64;
  const Arenas arenas{&schedule.program, &plan, base, nullptr};
  int additions = 0;
  for (size_t s = 0; s < schedule.segments.size(); ++s) {
    for (const LaneStep& step : schedule.segments[s].lanes[index_of(Lane::compute)]) {
      if (step.kind != StepKind::run) continue;
      const Op& op = schedule.program.segments[s].ops[index_of(step.op)];
      const std::span<std::byte> space = workspace_of(step, op, arenas);
      if (op.kind != OpKind::add) {
        EXPECT_TRUE(space.empty());
        continue;
      }
      ++additions;
      EXPECT_EQ(space.size(), static_cast<size_t>(wanted));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(space.data()) % 256, 0U);
      EXPECT_GE(space.data(), base);
      EXPECT_LE(space.data() + space.size(), base + plan.device_bytes);
    }
  }
  EXPECT_GT(additions, 3);
}

TEST(Workspaces, NoneAreAddedWhereNoneAreWanted) {
  const Schedule plain = overlapped_schedule(offloaded_stack(3));
  const Schedule same = with_workspaces(plain, [](const Program&, const Op&) { return 0; });
  EXPECT_EQ(same.program.tensors.size(), plain.program.tensors.size());
}

TEST(Workspaces, CopyLanesHaveNone) {
  EXPECT_THROW(
      with_workspaces(overlapped_schedule(offloaded_stack(3)),
                      [](const Program&, const Op& op) { return is_host_copy(op) ? 8 : 0; }),
      std::logic_error);
}

}  // namespace
}  // namespace spillway
