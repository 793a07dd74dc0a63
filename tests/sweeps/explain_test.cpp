// Explanations: seconds by cause against hand arithmetic, that nothing is left over on the published
// sweeps, and the subcommand.
#include "sweeps/explain.h"

#include <gmock/gmock.h>

#include "sweeps/explain_causes.h"
#include "sweeps/sweep_file.h"
#include "tests/harness/sim_support.h"
#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

using Kind = StepKind;
using testing::HasSubstr;

// On two devices: a product beside a gather that takes half of the cores, then a sum beside a
// longer copy.
struct TinyStep {
  SimBody body{1, 2};
  int gather = body.gather(2), product = body.matmul(3), copy = body.d2h(8), sum = body.add(5);
  Machine machine = round_machine({{"launch_seconds", 0.5}, {"collective_sm_share", 0.5}});
  Schedule schedule = body.schedule({{Kind::start, gather},
                                     {Kind::run, product},
                                     {Kind::done, gather},
                                     {Kind::start, copy},
                                     {Kind::run, sum},
                                     {Kind::done, copy}});

  Op& op(int index) { return schedule.program.segments[0].ops[index_of(index)]; }
  StepCauses causes() { return causes_of(schedule, machine, {}, simulate(schedule, machine)); }
};

TEST(ExplainCauses, OfATinyStepByHand) {
  TinyStep step;
  // The product does 1 of its 3.5 s in the 2 s of the gather; the sum takes 5.5 of the copy's 8 s.
  ASSERT_NEAR(simulate(step.schedule, step.machine).seconds, 2 + 2.5 + 8, 1e-12);
  const StepCauses causes = step.causes();
  EXPECT_NEAR(causes.total(StepCause::compute), 3 + 5, 1e-12);
  EXPECT_NEAR(causes.total(StepCause::launches), 2 * 0.5, 1e-12);
  EXPECT_NEAR(causes.total(StepCause::contention_collectives), 1, 1e-12);
  EXPECT_NEAR(causes.total(StepCause::exposed_d2h), 2.5, 1e-12);
  EXPECT_NEAR(causes.total(), 12.5, 1e-12);
}

TEST(ExplainCauses, RecomputedOpsAndPeeledEndsAreCausesOfTheirOwn) {
  TinyStep step;
  step.op(step.product).recomputed = true;
  step.op(step.copy).peeled = true;
  const StepCauses causes = step.causes();
  EXPECT_NEAR(causes.total(StepCause::recompute), 3, 1e-12);
  EXPECT_NEAR(causes.total(StepCause::compute), 5, 1e-12);
  EXPECT_NEAR(causes.total(StepCause::peeled), 2.5, 1e-12);
  EXPECT_EQ(causes.total(StepCause::exposed_d2h), 0);
}

TEST(ExplainCauses, QuantisationIsTakenOutOfAProduct) {
  SimBody body;
  const int product = body.matmul_fp8(10, 60);
  const Machine machine = round_machine({{"launch_seconds", 0.25}});
  const Schedule schedule = body.schedule({{Kind::run, product}});
  const StepCauses causes = causes_of(schedule, machine, {}, simulate(schedule, machine));
  // 2400 bytes x 1.5 at 1200 bytes/s; 12000 FLOP at 800 FLOP/s; a launch each.
  EXPECT_NEAR(causes.total(StepCause::quantisation), 3, 1e-9);
  EXPECT_NEAR(causes.total(StepCause::compute), 15, 1e-9);
  EXPECT_NEAR(causes.total(StepCause::launches), 0.5, 1e-9);
}

TEST(ExplainCauses, AGatherIsRepeatedWhenOnlyRecomputedOpsReadIt) {
  TinyStep step;
  Program& program = step.schedule.program;
  const Operand gathered = step.op(step.gather).outputs[0];
  EXPECT_FALSE(is_repeated(program, step.op(step.gather))) << "nothing reads it";
  step.op(step.sum).inputs[0] = gathered;
  EXPECT_FALSE(is_repeated(program, step.op(step.gather)));
  step.op(step.sum).recomputed = true;
  EXPECT_TRUE(is_repeated(program, step.op(step.gather)));
  step.op(step.product).inputs[0] = gathered;
  EXPECT_FALSE(is_repeated(program, step.op(step.gather))) << "the gradient needs it as well";
}

// Rows of a sweep with one figure for all; which one does not matter here.
std::vector<ExplainedPoint> rows_of(const char* sweep) {
  std::vector<ExplainedPoint> rows;
  for (const SweepPoint& point : load_sweep(sweep).points)
    rows.push_back(
        {point.label, point.point, point.published, Fitted{"matmul_efficiency", 0.65, "a test"}});
  return rows;
}

void expect_nothing_left_over(const Explanation& explanation) {
  double a = 0, b = 0, change = 0, peak_a = 0, peak_b = 0;
  for (const ExplainedItem& item : explanation.items) {
    a += item.a;
    b += item.b;
    change += item.change();
  }
  for (const ExplainedMemory& entry : explanation.memory) {
    peak_a += entry.a;
    peak_b += entry.b;
  }
  EXPECT_NEAR(a, explanation.a.step_seconds, 1e-9);
  EXPECT_NEAR(b, explanation.b.step_seconds, 1e-9);
  EXPECT_NEAR(change, explanation.b.step_seconds - explanation.a.step_seconds, 1e-9);
  EXPECT_EQ(peak_a, explanation.peak_a);
  EXPECT_EQ(peak_b, explanation.peak_b);
}

class ExplainPublished : public testing::TestWithParam<const char*> {};

TEST_P(ExplainPublished, ChangesAddUpForEveryPairOfRows) {
  const std::vector<ExplainedPoint> rows = rows_of(GetParam());
  int pairs = 0;
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = i + 1; j < rows.size(); ++j) {
      SCOPED_TRACE(rows[i].label + " to " + rows[j].label);
      if (rows[i].point.micro_batch != rows[j].point.micro_batch) {
        EXPECT_THAT([&] { explain(rows[i], rows[j]); },
                    testing::ThrowsMessage<InputError>(HasSubstr("micro_batch")));
        continue;
      }
      expect_nothing_left_over(explain(rows[i], rows[j]));
      ++pairs;
    }
  EXPECT_GE(pairs, 6);
}

INSTANTIATE_TEST_SUITE_P(Sweeps, ExplainPublished,
                         testing::Values("llama3.1-405b-published", "deepseek-v3-published"),
                         [](const auto& sweep) { return std::string(sweep.param).substr(0, 5); });

const ExplainedItem& item_of(const Explanation& explanation, const std::string& key) {
  for (const ExplainedItem& item : explanation.items)
    if (item.key == key) return item;
  throw std::logic_error("no item " + key);
}

// What the point's own policy decides shows under the cause that bears its name, and nowhere else.
TEST(Explain, OffloadingRemovesTheRecomputationOfWhatItMoves) {
  const std::vector<ExplainedPoint> rows = rows_of("llama3.1-405b-published");
  const Explanation explanation = explain(rows[0], rows[1]);  // no offload, QKV offload + LHS
  const ExplainedItem& recompute = item_of(explanation, "recompute");
  EXPECT_LT(recompute.change(), 0);
  EXPECT_GT(std::abs(recompute.change()), 0.8 * std::abs(explanation.change()));
  ASSERT_TRUE(explanation.published_change());
  EXPECT_NEAR(*explanation.published_change(), -0.434, 5e-4);  // published.md 1e
  for (const ExplainedTraffic& row : explanation.traffic)
    if (row.name == "FLOPs computed again") {
      EXPECT_NEAR((row.a - row.b) / 1e12, 1246.8, 0.1);  // published.md 1e
    }
}

TEST(Explain, RotationCopiesAppearWithPipelining) {
  const std::vector<ExplainedPoint> rows = rows_of("llama3.1-405b-published");
  const Explanation explanation = explain(rows[1], rows[3]);  // QKV offload + LHS, + pipelined
  const ExplainedItem& copies = item_of(explanation, "rotation_copies");
  EXPECT_EQ(copies.a, 0);
  // 70.875 GiB out twice and in once, read and written at 0.67 of 8 TB/s.
  EXPECT_NEAR(copies.b, 6 * 70.875 * 1024 * 1024 * 1024 / (0.67 * 8e12), 1e-3);
  EXPECT_EQ(item_of(explanation, "recompute").change(), 0);
}

TEST(Explain, RefusesWhatCannotBeCompared) {
  std::vector<ExplainedPoint> rows = rows_of("llama3.1-405b-published");
  ExplainedPoint other = rows[0];
  other.point.seq = 4096;
  EXPECT_THAT([&] { explain(rows[0], other); },
              testing::ThrowsMessage<InputError>(HasSubstr("seq: found \"8192\" and \"4096\"")));
  other = rows[0];
  other.point.executor = ExecutorKind::cpu;
  EXPECT_THAT([&] { explain(rows[0], other); },
              testing::ThrowsMessage<InputError>(HasSubstr("executor")));
}

TEST(ExplainCli, TakesLabelsAndFiles) {
  const ScratchDir dir;
  const std::string options =
      dir.file("remat.json",
               R"({"model": "llama3.1-8b", "executor": "sim", "devices": 8, "policy": "full"})");
  const std::string other =
      dir.file("kept.json",
               R"({"model": "llama3.1-8b", "executor": "sim", "devices": 8, "policy": "minimal"})");
  const nlohmann::json result =
      spillway_cli({"explain", options, other, "--format", "json"}).json();
  double sum = 0;
  for (const nlohmann::json& item : result["items"])
    sum += item["change"].get<double>();
  EXPECT_NEAR(sum, result["change_seconds"].get<double>(), 1e-9);
  EXPECT_TRUE(result["a"]["fitted"].is_null());

  const Finished named =
      spillway_cli({"explain", "llama3.1-405b-published:no offload", "QKV offload, LHS off",
                    "--sweep", "llama3.1-405b-published.json", "--format", "html"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_THAT(named.out, HasSubstr("<svg"));
  EXPECT_THAT(named.out, HasSubstr("fitted on &#39;no offload&#39;"));
}

TEST(ExplainCli, RefusesWhatItDoesNotKnow) {
  const std::string sweep = "llama3.1-405b-published";
  expect_refused({"explain", sweep + ":nothing", sweep + ":no offload"},
                 {"'nothing'", "'QKV offload + LHS'"});
  expect_refused({"explain", "no offload", "no offload"}, {"SWEEP:LABEL"});
  expect_refused({"explain", "no offload", "no offload", "--sweep", sweep, "--format", "csv"},
                 {"--format", "md, html, json"});
}

}  // namespace
}  // namespace spillway
