// What routing is reported to do. deepseek-tiny takes 3 of 8 experts in 3 of its 4 layers,
// mixtral-tiny 2 of 4 in 4; both have 2 sequences of 64 tokens: 384 and 256 choices a layer.
#include "sweeps/routing.h"

#include <gmock/gmock.h>

#include "harness/error.h"
#include "sweeps/capacity.h"
#include "sweeps/run.h"
#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Point expert_point(const std::string& model, ExecutorKind executor, const RoutingChoice& routing) {
  Point point;
  point.model = model;
  point.executor = executor;
  point.steps = 2;
  point.warmup = 1;
  point.moe.routing = routing;
  return point;
}

Point spread_point(const std::string& model, const RoutingChoice& routing, int64_t ranks,
                   double factor = 0) {
  Point point = expert_point(model, ExecutorKind::sim, routing);
  point.devices = point.moe.expert_parallel = ranks;
  point.moe.ragged_buffer_factor = factor;
  return point;
}

const RoutingChoice by_model, uniform{RoutingChoice::Kind::uniform, 0},
    one{RoutingChoice::Kind::one, 0}, zipf{RoutingChoice::Kind::zipf, 1.2};

json rows_json(double mean, int64_t max) { return {{"mean", mean}, {"max", max}}; }
json rank_json(int64_t planned, int64_t mean, int64_t max) {
  return {{"planned", planned}, {"mean", mean}, {"max", max}};
}

// The reason of a point that fails, with the plan and the routing that it fails by.
std::string failure_of(const Point& point) {
  const json result = run_point(point, {});
  EXPECT_EQ(result["status"], "failed");
  EXPECT_TRUE(result["step_seconds"].is_null());
  EXPECT_GT(result["routing"]["rank_rows"]["max"], result["routing"]["rank_rows"]["planned"]);
  EXPECT_GT(result["peak_hbm_bytes"], 0);
  return result["reason"].is_string() ? result["reason"].get<std::string>() : "";
}

TEST(RoutingReport, DenseModelsHaveNone) {
  const json result = run_point(expert_point("llama-tiny", ExecutorKind::sim, by_model), {});
  EXPECT_TRUE(result["routing"].is_null());
  EXPECT_EQ(result["peak_hbm_bytes_used"], result["peak_hbm_bytes"]);
}

// 384 choices over 8 experts, from 2 ranks.
TEST(RoutingReport, UniformOverRanksIsEven) {
  const json result = run_point(spread_point("deepseek-tiny", uniform, 2), {});
  const json& routing = result["routing"];
  EXPECT_EQ(routing["path"], "dropless");
  EXPECT_EQ(routing["choice"], "uniform");
  EXPECT_EQ(routing["tokens"], 128);
  EXPECT_EQ(routing["top_k"], 3);
  EXPECT_EQ(routing["experts"], 8);
  EXPECT_EQ(routing["expert_rows"], rows_json(96, 96));
  EXPECT_EQ(routing["rank_rows"], rank_json(384, 384, 384));
  EXPECT_TRUE(routing["dropped_choices"].is_null());
  EXPECT_TRUE(routing["dropped_share"].is_null());
  EXPECT_EQ(result["peak_hbm_bytes_used"], result["peak_hbm_bytes"]);
}

// The first 3 experts are on rank 0 of 2: both send it all they have.
TEST(RoutingReport, MoreRowsThanPlannedFailWithBothNumbers) {
  EXPECT_THAT(failure_of(spread_point("deepseek-tiny", one, 2)),
              AllOf(HasSubstr("receives 768 rows"), HasSubstr("planned are 384")));
  // One of 4 experts a rank: 128 tokens of 4 ranks, of 256 rows planned.
  EXPECT_THAT(failure_of(spread_point("mixtral-tiny", one, 4, 1.5)),
              AllOf(HasSubstr("receives 512 rows"), HasSubstr("planned are 384")));
  const json result = run_point(spread_point("deepseek-tiny", one, 2, 2), {});
  EXPECT_EQ(result["status"], "ok");
  EXPECT_EQ(result["routing"]["expert_rows"], rows_json(96, 256));
  EXPECT_EQ(result["routing"]["rank_rows"], rank_json(768, 384, 768));
  EXPECT_EQ(result["peak_hbm_bytes_used"], result["peak_hbm_bytes"]);
}

// Half the rows are used of a plan for twice as many; the data does not move the plan.
TEST(RoutingReport, WhatIsNotUsedOfThePlanIsLeftOut) {
  for (const char* policy : {"full", "minimal", "moe_mlpwi_0=offload"})
    for (const bool pipelined : {false, true}) {
      Point point = spread_point("deepseek-tiny", uniform, 2, 2);
      point.policy = policy;
      point.pipeline = pipelined;
      const Prepared even = prepare(point, {});
      EXPECT_GT(even.plan.peak_ragged_bytes, 0);
      EXPECT_EQ(used_peak_bytes(even.plan, even.routed),
                even.plan.device_bytes - even.plan.peak_ragged_bytes / 2)
          << policy;
      point.moe.routing = one;
      const Prepared skewed = prepare(point, {});
      EXPECT_EQ(skewed.plan.device_bytes, even.plan.device_bytes);
      EXPECT_EQ(used_peak_bytes(skewed.plan, skewed.routed), even.plan.device_bytes);
    }
}

// 1.5 x 384 = 576 rows, a number that nothing else has: no pass loses the mark.
TEST(RoutingReport, EveryPassKeepsTheMarkOfRaggedTensors) {
  for (const char* policy : {"full", "minimal", "moe_mlpwi_0=offload,moe_mlpwi_1=device"})
    for (const bool copies : {false, true}) {
      Point point = spread_point("deepseek-tiny", uniform, 2, 1.5);
      point.policy = policy;
      point.pipeline = true;
      point.rotation_copies = copies;
      for (const Tensor& tensor : plan_point(point, {}).schedule.program.tensors)
        EXPECT_EQ(tensor.ragged, !tensor.shape.empty() && tensor.shape[0] == 576) << tensor.name;
    }
}

TEST(RoutingReport, TheRoutersOwnChoiceIsTakenAsEven) {
  const json routing = run_point(spread_point("deepseek-tiny", by_model, 2, 1.5), {})["routing"];
  EXPECT_EQ(routing["choice"], "model");
  EXPECT_TRUE(routing["expert_rows"].is_null());
  EXPECT_EQ(routing["rank_rows"], rank_json(576, 384, 384));
}

TEST(RoutingReport, ASimulationKnowsWhatAnExecutionRecords) {
  for (const char* model : {"deepseek-tiny", "mixtral-tiny"})
    for (const bool capacity : {false, true})
      for (const RoutingChoice& choice : {uniform, zipf, one}) {
        Point point = expert_point(model, ExecutorKind::sim, choice);
        point.moe.capacity_path = capacity;
        const json simulated = run_point(point, {})["routing"];
        point.executor = ExecutorKind::cpu;
        EXPECT_EQ(run_point(point, {})["routing"], simulated) << simulated;
      }
}

TEST(RoutingReport, AnExecutionCountsTheRoutersOwnChoice) {
  const Point point = expert_point("deepseek-tiny", ExecutorKind::cpu, by_model);
  const json routing = run_point(point, {})["routing"];
  EXPECT_EQ(routing["expert_rows"]["mean"], 48);
  EXPECT_GE(routing["expert_rows"]["max"], 48);
  EXPECT_LE(routing["expert_rows"]["max"], 128) << "a token takes an expert once";
  EXPECT_EQ(routing["rank_rows"], rank_json(384, 384, 384));
}

// 64 tokens x 2 over 4 experts give each 32 slots in a sequence. Two experts get 64 choices each:
// half are dropped, 128 in each of 4 layers.
TEST(RoutingReport, DroppedChoicesAreCounted) {
  for (const ExecutorKind executor : {ExecutorKind::sim, ExecutorKind::cpu}) {
    Point point = expert_point("mixtral-tiny", executor, one);
    point.moe.capacity_path = true;
    const json routing = run_point(point, {})["routing"];
    EXPECT_EQ(routing["path"], "capacity");
    EXPECT_EQ(routing["dropped_choices"], 512);
    EXPECT_EQ(routing["dropped_share"], 0.5);
    EXPECT_EQ(routing["expert_rows"], rows_json(32, 64));
    EXPECT_TRUE(routing["rank_rows"].is_null());
    point.moe.capacity_factor = 2;
    EXPECT_EQ(run_point(point, {})["routing"]["dropped_choices"], 0);
  }
  Point point = spread_point("mixtral-tiny", one, 4);
  point.moe.capacity_path = true;
  EXPECT_EQ(run_point(point, {})["routing"]["expert_rows"], rows_json(128, 256)) << "of 4 ranks";
  point.moe.routing = by_model;
  EXPECT_TRUE(run_point(point, {})["routing"]["dropped_choices"].is_null());
}

// Capacity is a question about the plan, which routing does not change.
TEST(RoutingReport, CapacityDoesNotDependOnTheRouting) {
  const HostNeed skewed = host_need(spread_point("deepseek-tiny", one, 2), 2);
  EXPECT_EQ(skewed.step_seconds,
            host_need(spread_point("deepseek-tiny", uniform, 2), 2).step_seconds);
}

const Words crowded = {"--model", "deepseek-tiny",     "--executor", "sim", "--devices",
                       "2",       "--expert-parallel", "2"};

TEST(RoutingReport, TheCommandLineFailsOrPrintsIt) {
  const Words one_expert = with(with({"run"}, crowded), {"--routing", "one"});
  const Finished failed = spillway_cli(with(one_expert, {"--json", "-"}));
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("768"), HasSubstr("384")));
  EXPECT_EQ(failed.json()["status"], "failed");
  const Finished done = spillway_cli(with(one_expert, {"--ragged-buffer-factor", "2"}));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("one, dropless; rows received, mean and max; an expert 96, 256; "
                                  "a rank 384, 768 of 768 planned\n"));
  EXPECT_THAT(done.out, Not(HasSubstr("  of it used")));
  const Finished even = spillway_cli(
      with(with({"run"}, crowded), {"--routing", "uniform", "--ragged-buffer-factor", "2"}));
  EXPECT_THAT(even.out, HasSubstr("  of it used"));
}

TEST(RoutingReport, NoRankReceivesMoreThanAllSend) {
  for (const char* factor : {"2.5", "1e14", "1e300"})
    expect_refused(with(with({"run"}, crowded), {"--ragged-buffer-factor", factor}),
                   {"--ragged-buffer-factor: found", "at most 2"});
  expect_refused({"run", "--model", "deepseek-tiny", "--ragged-buffer-factor", "2"},
                 {"--ragged-buffer-factor: found 2", "--expert-parallel above 1"});
  // 8 experts, 3 a token: every token has room at 8 / 3.
  for (const char* factor : {"2.7", "1e14", "1e300"})
    expect_refused(
        {"run", "--model", "deepseek-tiny", "--moe", "capacity", "--capacity-factor", factor},
        {"--capacity-factor: found", "at most 2.66"});
  expect_refused({"run", "--model", "deepseek-tiny", "--routing", "zipf:65"},
                 {"--routing", "zipf:65", "at most 64"});
  expect_refused({"run", "--model", "deepseek-tiny", "--layers", "1", "--routing", "one"},
                 {"--routing", "deepseek-tiny"});
}

// What routes otherwise computes otherwise: nothing to compare.
TEST(RoutingReport, PointsOfOneSweepMayRouteDifferently) {
  const ScratchDir scratch;
  const char* const sweep = R"({"name": "routes", "title": "routes", "steps_per_visit": 1,
    "defaults": {"model": "deepseek-tiny", "micro_batch": 1, "seq": 8, "steps": 1, "warmup": 0},
    "points": [{"label": "a", "routing": "uniform"}, {"label": "b", "routing": "one"},
               {"label": "c", "moe": "capacity"},
               {"label": "d", "moe": "capacity", "capacity_factor": 2}]})";
  const Finished done =
      spillway_cli({"sweep", scratch.file("s.json", sweep), "--out", scratch.path() + "/out"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
}

TEST(RoutingReport, ASweepKeepsTheOverfullPointAsAFailedRow) {
  const ScratchDir scratch;
  const char* const sweep = R"({"name": "skew", "title": "two routings",
    "defaults": {"model": "deepseek-tiny", "executor": "sim", "devices": 2, "expert_parallel": 2},
    "points": [{"label": "even", "routing": "uniform"}, {"label": "one", "routing": "one"}]})";
  const std::string out = scratch.path() + "/out";
  EXPECT_EQ(spillway_cli({"sweep", scratch.file("s.json", sweep), "--out", out}).exit_code, 1);
  const json rows = spillway_cli({"report", out, "--format", "json"}).json()["rows"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["status"], "ok");
  EXPECT_EQ(rows[1]["status"], "failed");
  EXPECT_THAT(rows[1]["reason"].get<std::string>(), AllOf(HasSubstr("768"), HasSubstr("384")));
  EXPECT_EQ(rows[1]["routing"]["rank_rows"], rank_json(384, 384, 768));
  EXPECT_TRUE(rows[1]["step_seconds"].is_null());
}

}  // namespace
}  // namespace spillway
