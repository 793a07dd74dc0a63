// Alternatives in sweep files, their runs, and that the published sweeps have no hidden knob.
#include "sweeps/sensitivity.h"

#include <set>

#include <gmock/gmock.h>

#include "harness/error.h"
#include "sweeps/changed_machine.h"
#include "sweeps/machines.h"
#include "sweeps/run.h"
#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Two simulated rows of a small model and one hypothesis with this alternative.
std::string sweep_text(const std::string& alternative) {
  return R"({"name": "small", "title": "t",
    "defaults": {"model": "llama3.1-8b", "executor": "sim", "devices": 8},
    "points": [{"label": "kept", "policy": "minimal"}, {"label": "again", "policy": "full"}],
    "hypotheses": [{"id": "H1", "setting": "s", "status": "choice", "text": "t", "alternatives": [)" +
         alternative + "]}]}";
}

Sweep small_sweep(const std::string& alternative) {
  return parse_sweep(sweep_text(alternative), "small.json");
}

TEST(Alternatives, ChangeRowsAndMachines) {
  const Sweep sweep = small_sweep(
      R"({"label": "other", "seq": 2048, "rows": {"again": {"lhs": "off"}},
          "machine_figures": {"launch_seconds": 1e-5}})");
  const Alternative& other = sweep.headers[0].hypotheses[0].alternatives.at(0);
  EXPECT_EQ(other.label, "other");
  EXPECT_EQ(under(other, sweep.points[0]).seq, 2048);
  EXPECT_TRUE(under(other, sweep.points[0]).lhs);
  EXPECT_EQ(under(other, sweep.points[1]).seq, 2048);
  EXPECT_FALSE(under(other, sweep.points[1]).lhs);
  EXPECT_EQ(other.machine_figures.at("launch_seconds"), 1e-5);
}

void expect_alternative_refused(const std::string& alternative, const std::string& mention) {
  SCOPED_TRACE(alternative);
  EXPECT_THAT([&] { small_sweep(alternative); }, testing::ThrowsMessage<InputError>(AllOf(
                                                     HasSubstr("small.json"), HasSubstr(mention))));
}

TEST(Alternatives, RefuseWhatTheyCannotChange) {
  expect_alternative_refused(R"({"seq": 2048})", "label");
  expect_alternative_refused(R"({"label": "a"})", "no change");
  expect_alternative_refused(R"({"label": "a", "sequence": 1})", "sequence");
  expect_alternative_refused(R"({"label": "a", "seq": "many"})", "many");
  expect_alternative_refused(R"({"label": "a", "rows": {"nobody": {"lhs": "off"}}})", "'again'");
  expect_alternative_refused(R"({"label": "a", "rows": {"again": {}}})", "rows.again");
  expect_alternative_refused(R"({"label": "a", "machine_figures": {"warp": 1}})", "warp");
  expect_alternative_refused(R"({"label": "a", "machine_figures": {"hbm_usable": 1.5}})", "1.5");
  expect_alternative_refused(R"({"label": "a", "machine_figures": {"hbm_usable": "x"}})",
                             "a number");
  expect_alternative_refused(R"({"label": "a", "capacity_factor": 2})", "capacity");
}

TEST(Alternatives, ToleranceIsAPositiveNumber) {
  std::string text = sweep_text(R"({"label": "a", "seq": 2048})");
  text.insert(1, R"("tolerance_percent": 0, )");
  EXPECT_THAT([&] { parse_sweep(text, "small.json"); },
              testing::ThrowsMessage<InputError>(HasSubstr("tolerance_percent")));
}

TEST(SensitivityRuns, OtherValuesStayLegal) {
  EXPECT_THAT(other_values("launch_seconds", 5), ElementsAre(4, 6));
  EXPECT_THAT(other_values("nvlink_efficiency", 0.9), ElementsAre(testing::DoubleEq(0.72), 1));
  EXPECT_THAT(other_values("nic_on_host_link", 1), ElementsAre(0.8));
  EXPECT_THAT(other_values("gpus_per_domain", 64), ElementsAre(51, 77));
}

TEST(SensitivityRuns, AChangedFigureChangesTheMachineAlone) {
  const Machine machine = load_machine("gb200-nvl72");
  const Machine changed = change_figures(machine, {{"hbm_usable", 0.9}});
  EXPECT_EQ(changed.figure("hbm_usable"), 0.9);
  EXPECT_EQ(changed.figure("hbm_bytes"), machine.figure("hbm_bytes"));
}

TEST(SensitivityRuns, EveryAlternativeAndAssumedConstantIsRun) {
  const Sweep sweep = small_sweep(R"({"label": "LHS off", "lhs": "off"})");
  const SweepSensitivity result = sensitivity_of({sweep}).at(0);
  ASSERT_THAT(result.base.rows, testing::SizeIs(2));
  ASSERT_THAT(result.hypotheses.at(0).alternatives, testing::SizeIs(1));
  // As each row gives by itself.
  Settings settings;
  Point off = sweep.points[1].point;
  off.lhs = false;
  const double alone = run_point(off, settings)["tflops_per_s_per_device"];
  EXPECT_DOUBLE_EQ(*result.hypotheses[0].alternatives[0].rows[1].tflops_per_s_per_device, alone);
  size_t assumed = 0;
  for (const auto& [key, figure] : load_machine("gb200-nvl72").figures)
    assumed += figure.assumed ? 1 : 0;
  EXPECT_EQ(result.constants.size(), assumed);
  for (const SensitivityConstant& constant : result.constants)
    for (const SensitivityVariation& variation : constant.variations)
      EXPECT_THAT(variation.rows, testing::SizeIs(2)) << constant.figure << variation.failure;
  std::set<std::string> used;
  for (const SensitivityConstant* constant : constants_in_use(result))
    used.insert(constant->figure);
  EXPECT_TRUE(used.count("launch_seconds")) << "every op is launched";
  EXPECT_FALSE(used.count("matmul_ratio_nvfp4")) << "nothing runs in it";
}

// What the published tables name about a row; everything else is common to all of a sweep.
class PublishedKnobs : public testing::TestWithParam<const char*> {};

TEST_P(PublishedKnobs, RowsDifferOnlyInWhatIsPublished) {
  const std::set<std::string> published_axes = {"policy", "lhs", "pipeline", "micro_batch"};
  const std::string path = std::string(SPILLWAY_SOURCE_DIR) + "/sweeps/" + GetParam() + ".json";
  const json root = json::parse(read_file(path));
  EXPECT_FALSE(root.contains("axes"));
  for (const json& point : root["points"])
    for (const auto& [key, value] : point.items())
      if (key != "label" && key != "published") {
        EXPECT_TRUE(published_axes.count(key)) << point["label"] << ": " << key;
      }
}

TEST_P(PublishedKnobs, TheFreeParametersAreListed) {
  const Sweep sweep = load_sweep(GetParam());
  const SweepHeader& header = sweep.headers.front();
  const int fitted = header.calibration ? 1 : 0;
  EXPECT_LE(fitted, 1);
  // One machine for all rows, so that an assumed constant is one parameter and not one for each.
  std::set<std::string> machines, hypotheses;
  for (const SweepPoint& point : sweep.points)
    machines.insert(machine_of(point.point));
  ASSERT_EQ(machines.size(), 1U);
  for (const Hypothesis& hypothesis : header.hypotheses)
    EXPECT_TRUE(hypotheses.insert(hypothesis.id).second) << hypothesis.id;
  int assumed = 0;
  for (const auto& [key, figure] : load_machine(*machines.begin()).figures)
    assumed += figure.assumed ? 1 : 0;
  RecordProperty("fitted", fitted);
  RecordProperty("assumed_constants", assumed);
  RecordProperty("hypotheses", static_cast<int>(hypotheses.size()));
  EXPECT_GT(assumed, 0);
  EXPECT_GE(hypotheses.size(), 5U);
}

INSTANTIATE_TEST_SUITE_P(Sweeps, PublishedKnobs,
                         testing::Values("llama3.1-405b-published", "deepseek-v3-published"),
                         [](const auto& sweep) { return std::string(sweep.param).substr(0, 5); });

TEST(SensitivityCli, RefusesWhatItCannotRun) {
  const ScratchDir dir;
  expect_refused({"sensitivity"}, {"sweeps"});
  expect_refused({"sensitivity", "nothing"}, {"'nothing'"});
  expect_refused({"sensitivity", "llama3.1-405b-published", "--format", "html"},
                 {"--format", "md, json, csv"});
  const std::string executed = dir.file("cpu.json", R"({"name": "cpu", "title": "t", "points": [
    {"label": "a", "model": "llama-tiny", "policy": "full"}]})");
  expect_refused({"sensitivity", executed}, {"no simulated point"});
  const std::string mixed = dir.file("mixed.json", R"({"name": "mixed", "title": "t", "points": [
    {"label": "a", "model": "llama3.1-8b", "executor": "sim"},
    {"label": "b", "model": "llama3.1-8b", "executor": "sim", "machine": "h200-sxm"}]})");
  expect_refused({"sensitivity", mixed}, {"machine", "'h200-sxm'"});
}

}  // namespace
}  // namespace spillway
