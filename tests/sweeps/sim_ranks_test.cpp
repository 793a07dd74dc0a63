// Ranks as options of a point.

#include <gtest/gtest.h>

#include "harness/error.h"
#include "sweeps/run.h"

namespace spillway {
namespace {

Point four_layers() {
  Point point;
  point.executor = ExecutorKind::sim;
  point.model = "llama3.1-405b";
  point.layers = 4;
  point.devices = 128;
  point.policy = "qkv_proj_offloaded";
  return point;
}

TEST(SimRanksOption, AStragglerSlowsEveryStep) {
  Point point = four_layers();
  const auto even = run_point(point, {});
  EXPECT_FALSE(even.contains("rank_waiting_seconds"));
  point.ranks.count = 8;
  const auto equal = run_point(point, {});
  EXPECT_EQ(equal["step_seconds"], even["step_seconds"]);
  point.ranks.straggler = 1.1;
  const auto uneven = run_point(point, {});
  const double seconds = even["step_seconds"]["median"], slow = uneven["step_seconds"]["median"];
  EXPECT_GT(slow, seconds);
  EXPECT_LE(slow, 1.1 * seconds * (1 + 1e-12));
  // Seven ranks of eight stand for what the straggler takes longer, less what hid behind copies.
  EXPECT_GT(uneven["rank_waiting_seconds"].get<double>(), 0);
  EXPECT_LE(uneven["rank_waiting_seconds"].get<double>(), slow);
}

TEST(SimRanksOption, BelongsToASimulationOfAsManyDevices) {
  Point point = four_layers();
  point.ranks.count = 129;
  EXPECT_THROW(verify_point(point), InputError);
  point = four_layers();
  point.executor = ExecutorKind::cpu;
  verify_point(point);
  point.ranks.op_sigma = 0.1;
  EXPECT_THROW(verify_point(point), InputError);
}

}  // namespace
}  // namespace spillway
