// The judgement of a validation by hand arithmetic, the points it takes, and a whole calibration
// and validation of a tiny model: structure and sanity, no timing.
#include <cmath>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>

#include "harness/live_bytes.h"
#include "sweeps/calibrate.h"
#include "sweeps/calibrate_parts.h"
#include "sweeps/machines.h"
#include "sweeps/validate_judge.h"
#include "sweeps/validate_points.h"
#include "sweeps/validate_report.h"
#include "tests/sweeps/support_cli.h"
#include "tests/sweeps/support_runs.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

StepTimes step_of(double seconds, double transfers = 0, double exposed = 0) {
  return {seconds, transfers, exposed, {}};
}

// Executed steps of one visit at the calibration's pace, simulated as `simulated`.
ValidateRecord record_of(const std::string& link, const std::vector<double>& executed,
                         double simulated) {
  ValidateRecord record;
  record.label = link;
  record.workload = "w";
  record.link = link;
  ValidateVisit visit;
  for (const double seconds : executed)
    visit.executed.push_back(step_of(seconds));
  visit.simulated = record.calibrated = step_of(simulated);
  record.visits = {visit};
  return record;
}

// Two visits, the second on a machine twice as slow: 10 s simulated as calibrated, 20 s then.
// Executed 11 and 22: each 10 % over what its own pace says. Raw: median 16.5 s against 10 s.
TEST(Validate, ErrorsAreRawAndAtThePaceOfEachVisit) {
  ValidateRecord record = record_of("", {11}, 10);
  record.visits.push_back({2, {step_of(22)}, step_of(20)});
  const Judged judged = judge(record);
  EXPECT_NEAR(judged.executed, 16.5, 1e-12);
  EXPECT_NEAR(judged.simulated, 15, 1e-12);
  EXPECT_NEAR(judged.error_raw, 0.65, 1e-12);
  EXPECT_NEAR(judged.error, 0.1, 1e-12);
  EXPECT_NEAR(judged.even_low, 11, 1e-12);
  EXPECT_NEAR(judged.even_high, 11, 1e-12);
}

// Of 10, 11, 12, 13, 14 the quartiles are 11 and 13.
TEST(Validate, QuartilesAreThoseOfTheSteps) {
  const Judged judged = judge(record_of("", {14, 10, 12, 13, 11}, 10));
  EXPECT_NEAR(judged.low, 11, 1e-12);
  EXPECT_NEAR(judged.executed, 12, 1e-12);
  EXPECT_NEAR(judged.high, 13, 1e-12);
  EXPECT_NEAR(judged.error, 0.2, 1e-12);
}

// 4 s of transfers allow 0.6 s, a step of 100 s allows 1 s.
TEST(Validate, ExposedTimeHasTheLargerOfTwoAllowances) {
  ValidateRecord record = record_of("x", {10}, 10);
  record.visits[0].executed = {step_of(10, 4, 2)};
  record.visits[0].simulated = step_of(10, 4, 2.59);
  EXPECT_NEAR(judge(record).exposed_allowed, 0.6, 1e-12);
  EXPECT_TRUE(judge(record).exposed_fits);
  record.visits[0].simulated.exposed = 1.39;
  EXPECT_FALSE(judge(record).exposed_fits);
  record.visits[0].executed = {step_of(100, 4, 2)};
  record.visits[0].simulated.exposed = 2.9;
  EXPECT_TRUE(judge(record).exposed_fits);
}

TEST(Validate, PeaksAreEqualOrNot) {
  ValidateRecord record = record_of("", {1}, 1);
  record.planned_bytes = record.changed_bytes = 640;
  record.live_bytes = 640;
  EXPECT_TRUE(judge(record).peak_fits && judge(record).live_fits);
  record.changed_bytes = 576;
  record.live_bytes = 641;
  EXPECT_FALSE(judge(record).peak_fits);
  EXPECT_FALSE(judge(record).live_fits);
}

TEST(Validate, BusyTimeIsComparedKindByKind) {
  ValidateRecord record = record_of("", {1, 1, 1}, 1);
  const double seconds[] = {1, 5, 3};
  for (size_t i = 0; i < 3; ++i)
    record.visits[0].executed[i].busy = {{"matmul", seconds[i]}};
  record.visits[0].simulated.busy = {{"matmul", 2}, {"add", 1}};
  const Judged judged = judge(record);
  EXPECT_EQ(judged.busy_executed.at("matmul"), 3);
  EXPECT_EQ(judged.busy_simulated.at("matmul"), 2);
  EXPECT_EQ(judged.busy_executed.at("add"), 0);
}

std::vector<OrderedPair> pairs_of(const std::vector<ValidateRecord>& records) {
  std::vector<Judged> judged;
  for (const ValidateRecord& record : records)
    judged.push_back(judge(record));
  return ordered_pairs(records, judged);
}

TEST(Validate, OrderCountsWhereQuartilesDoNotOverlap) {
  // Simulated in the executed order, then in the other one.
  std::vector<ValidateRecord> records = {record_of("a", {10, 10.2}, 10), record_of("a", {12}, 11)};
  ASSERT_THAT(pairs_of(records), testing::SizeIs(1));
  EXPECT_TRUE(pairs_of(records)[0].right);
  EXPECT_EQ(pairs_of(records)[0].faster, 0u);
  records[0] = record_of("a", {10, 10.2}, 11.5);
  ASSERT_THAT(pairs_of(records), testing::SizeIs(1));
  EXPECT_FALSE(pairs_of(records)[0].right);
  // 10, 12, 14 and 13, 14, 15: the quartiles 11 to 13 and 13.5 to 14.5 are apart, 12 to 14 are not.
  EXPECT_THAT(pairs_of({record_of("a", {10, 12, 14}, 10), record_of("a", {13, 14, 15}, 10)}),
              testing::SizeIs(1));
  EXPECT_THAT(pairs_of({record_of("a", {10, 14, 14}, 10), record_of("a", {13, 14, 15}, 10)}),
              IsEmpty());
}

TEST(Validate, OnlyVariantsOfOneWorkloadAndLinkAreOrdered) {
  EXPECT_THAT(pairs_of({record_of("a", {10}, 10), record_of("b", {12}, 12)}), IsEmpty());
  EXPECT_THAT(pairs_of({record_of("", {10}, 10), record_of("b", {12}, 12)}), testing::SizeIs(1));
  ValidateRecord other = record_of("a", {12}, 12);
  other.workload = "another";
  EXPECT_THAT(pairs_of({record_of("a", {10}, 10), other}), IsEmpty());
}

TEST(Validate, TheDistributionIsOfSizes) {
  const Distribution d = distribution_of({-0.1, 0.02, 0.04});
  EXPECT_NEAR(d.median, 0.04, 1e-12);
  EXPECT_NEAR(d.worst, 0.1, 1e-12);
  EXPECT_NEAR(d.low, -0.1, 1e-12);
  EXPECT_NEAR(d.high, 0.04, 1e-12);
}

TEST(Validate, LimitsPassAndFailByTheirFigures) {
  const auto passed = [](double executed, size_t limit) {
    return validation_json({record_of("", {executed}, 10)})["limits"][limit]["passed"].get<bool>();
  };
  EXPECT_TRUE(passed(10.4, 0) && passed(10.4, 1));
  EXPECT_FALSE(passed(10.6, 0));
  EXPECT_TRUE(passed(10.6, 1));
  EXPECT_FALSE(passed(12, 1));
  EXPECT_FALSE(validation_json({record_of("", {12}, 10)})["passed"].get<bool>());
}

// Of both proxies together: at least 20 points, over policies, LHS, pipelining, batch sizes, links.
TEST(Validate, PointsCoverWhatTheyShouldAndNoneCalibrates) {
  for (const std::string model : {"llama3.1-405b-proxy", "deepseek-v3-proxy"}) {
    SCOPED_TRACE(model);
    std::set<std::string> labels, policies, links;
    std::set<int64_t> batches;
    std::set<std::pair<bool, bool>> orders;
    const auto points = validate_points(model, scheduling_machine, 1e9);
    for (const ValidatePoint& validated : points) {
      labels.insert(label_of(validated));
      policies.insert(validated.point.policy);
      links.insert(validated.link);
      batches.insert(*validated.point.micro_batch);
      orders.insert({validated.point.lhs, validated.point.pipeline});
      for (const CalibrationPoint& used : calibration_points({model}))
        EXPECT_FALSE(validated.point.policy == "full" && *validated.point.layers == 2 &&
                     *validated.point.micro_batch == used.micro_batch);
    }
    EXPECT_EQ(labels.size(), points.size());
    EXPECT_GE(points.size(), 10u);
    EXPECT_GE(policies.size(), 4u);
    EXPECT_EQ(links.size(), 5u);  // one of them: none
    EXPECT_GE(batches.size(), 3u);
    EXPECT_EQ(orders.size(), 3u);
  }
}

// Bytes a d2h lane moves at that rate take 1.3 times as long as the step when copies cost nothing.
TEST(Validate, ASlowLinkTakesLongerThanCompute) {
  const double slow = rate_for_part("llama-tiny", scheduling_machine, 1.3);
  EXPECT_NEAR(rate_for_part("llama-tiny", scheduling_machine, 2.6), slow / 2, slow * 1e-9);
  EXPECT_GT(slow, 0);
}

TEST(LiveCurve, StartsWithWhatPersistsAndPeaksAtThePlansLoad) {
  for (const RunVariant& variant : every_schedule({"full", "qkv_proj_offloaded"})) {
    SCOPED_TRACE(label(variant));
    const Prepared prepared = prepare(tiny_point(variant, 2, 32), {});
    const Trace trace =
        make_sim_executor(prepared.schedule, prepared.machine, prepared.sim)->step();
    const std::vector<LiveBytes> curve = live_curve(prepared.schedule, trace);
    int64_t persistent = 0, highest = 0;
    for (const Tensor& tensor : prepared.schedule.program.tensors)
      if (tensor.extent == Extent::persistent && tensor.space == Space::device)
        persistent += tensor.bytes();
    for (const LiveBytes& live : curve)
      highest = std::max(highest, live.bytes);
    EXPECT_EQ(curve.front().bytes, persistent);
    EXPECT_EQ(curve.back().bytes, persistent);
    EXPECT_EQ(highest, prepared.plan.live_peak);
    EXPECT_LE(curve.back().seconds, trace.seconds);
  }
}

TEST(CalibrateCli, WhatItCannotMeasureIsRefused) {
  expect_refused({"calibrate", "--executor", "cuda", "--out", "x.json"}, {"--executor", "cuda"});
  expect_refused({"calibrate", "--executor", "sim", "--out", "x.json"}, {"--executor", "sim"});
  expect_refused({"calibrate"}, {"--out"});
  expect_refused({"calibrate", "--model", "llama-tinny", "--out", "x.json"}, {"llama-tinny"});
  expect_refused({"calibrate", "--seconds", "0", "--out", "x.json"}, {"--seconds", "'0'"});
  expect_refused({"validate", "--machine", "gb200-nvl72"}, {"gb200-nvl72", "calibrate"});
  expect_refused({"validate"}, {"--machine"});
}

// The whole of it, on a model that takes milliseconds.
TEST(CalibrateCli, ATinyModelIsMeasuredUsedAndValidated) {
  const ScratchDir work;
  const std::string file = work.path() + "/host.json", results = work.path() + "/results";
  const Words tiny = {"--model", "llama-tiny", "--seconds", "0.1"};
  const Finished calibrated = spillway_cli(with({"calibrate", "--out", file}, tiny));
  ASSERT_EQ(calibrated.exit_code, 0) << calibrated.err;
  EXPECT_THAT(calibrated.out, HasSubstr("attention_backward"));

  const Machine machine = load_machine(file);
  EXPECT_EQ(machine.name, "host");
  EXPECT_GE(machine.rates.ops.size(), 20u);
  EXPECT_GE(machine.rates.copies.size(), 6u);
  EXPECT_FALSE(machine.rates.contention.empty());
  EXPECT_FALSE(machine.rates.environment.at("cpu").empty());
  for (const OpRate& rate : machine.rates.ops)
    EXPECT_TRUE(rate.seconds > 0 && rate.samples >= 3) << info(rate.size.kind).name;

  for (const std::string executor : {"sim", "cpu"}) {
    const Finished run =
        spillway_cli({"run", "--model", "llama-tiny", "--executor", executor, "--machine", file,
                      "--steps", "1", "--warmup", "0", "--json", "-"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_GT(run.json()["step_seconds"]["median"].get<double>(), 0);
  }

  const Words again = with({"validate", "--machine", file, "--out", results, "--json"}, tiny);
  const Finished validated = spillway_cli(again);
  ASSERT_NE(validated.exit_code, 2) << validated.err;
  const nlohmann::json result = validated.json();
  EXPECT_GE(result["points"].size(), 10u);
  for (const nlohmann::json& point : result["points"]) {
    EXPECT_EQ(point["planned_peak_bytes"], point["changed_bytes"]) << point["label"];
    EXPECT_LE(point["live_bytes"], point["planned_peak_bytes"]) << point["label"];
    EXPECT_TRUE(std::isfinite(point["error"].get<double>())) << point["label"];
    EXPECT_GT(point["busy"]["matmul"]["simulated"].get<double>(), 0) << point["label"];
  }
  // What was run is kept: the same figures again, and nothing is said to run.
  const Finished repeated = spillway_cli(again);
  EXPECT_EQ(repeated.json(), result);
  EXPECT_THAT(repeated.err, testing::Not(HasSubstr("visit")));
}

}  // namespace
}  // namespace spillway
