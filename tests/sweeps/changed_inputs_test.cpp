// What a sweep does when the files it was made from change between two runs of it: a model's
// config, a machine file, the sweep file itself.
#include <string>

#include <gmock/gmock.h>

#include "sweeps/sweep_file.h"
#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

json sweep_of(const std::string& model, const std::string& machine) {
  return {{"name", "changing"},
          {"title", "Changing"},
          {"defaults", {{"model", model}, {"executor", "sim"}, {"devices", 8}, {"seq", 128}}},
          {"points",
           {{{"label", "plain"}, {"policy", "full"}},
            {{"label", "elsewhere"}, {"policy", "full"}, {"machine", machine}}}}};
}

std::vector<std::string> keys_of(const json& sweep) {
  std::vector<std::string> keys;
  for (const SweepPoint& point : parse_sweep(sweep.dump(), "s.json").points)
    keys.push_back(key_of(point));
  return keys;
}

TEST(ChangedInputs, AModelConfigOfOtherContentIsAnotherKey) {
  const ScratchDir scratch;
  const std::string config = read_file(case_file("c06_qwen25_7b.json"));
  const json sweep = sweep_of(scratch.file("config.json", config), "gb200-nvl72");
  const std::vector<std::string> before = keys_of(sweep);
  EXPECT_EQ(keys_of(sweep), before);
  scratch.file("config.json", config + "\n");
  const std::vector<std::string> after = keys_of(sweep);
  EXPECT_NE(after[0], before[0]);
  EXPECT_NE(after[1], before[1]);
  scratch.file("config.json", config);
  EXPECT_EQ(keys_of(sweep), before);
}

TEST(ChangedInputs, AMachineFileOfOtherContentIsAnotherKeyOfThePointsOnIt) {
  const ScratchDir scratch;
  const std::string machine =
      read_file(std::string(SPILLWAY_SOURCE_DIR) + "/sweeps/machines/gb200-nvl72.json");
  json sweep = sweep_of("llama-tiny", scratch.file("machine.json", machine));
  sweep["points"].push_back({{"label", "paced"},
                             {"executor", "cpu"},
                             {"link", "match:" + scratch.path() + "/machine.json/2"}});
  const std::vector<std::string> before = keys_of(sweep);
  scratch.file("machine.json", machine + " ");
  const std::vector<std::string> after = keys_of(sweep);
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NE(after[1], before[1]);
  EXPECT_NE(after[2], before[2]);
}

TEST(ChangedInputs, KeysOfShippedNamesHoldNoDigest) {
  for (const std::string& key : keys_of(sweep_of("llama-tiny", "gb200-nvl72"))) {
    EXPECT_THAT(json::parse(key), testing::SizeIs(2));
    EXPECT_THAT(key, AllOf(HasSubstr("\"point\""), HasSubstr("\"sweep\"")));
  }
}

TEST(ChangedInputs, ARerunAfterAConfigChangedRunsThePointsAnew) {
  const ScratchDir scratch;
  json config = json::parse(read_file(case_file("c06_qwen25_7b.json")));
  const json sweep = sweep_of(scratch.file("config.json", config.dump()), "gb200-nvl72");
  const std::string file = scratch.file("s.json", sweep.dump()), out = scratch.path() + "/out";
  const Finished before = spillway_cli({"sweep", file, "--out", out});
  ASSERT_EQ(before.exit_code, 0) << before.err;
  config["num_hidden_layers"] = 2;
  scratch.file("config.json", config.dump());
  const Finished after = spillway_cli({"sweep", file, "--out", out});
  EXPECT_EQ(after.exit_code, 0) << after.err;
  EXPECT_NE(after.out, before.out);
  const ScratchDir fresh;
  EXPECT_EQ(after.out, spillway_cli({"sweep", file, "--out", fresh.path() + "/out"}).out);
}

// One point goes, one is renamed, one is new: the table is that of a fresh run of the file.
TEST(ChangedInputs, AnEditedSweepReportsItsOwnPointsUnderTheirLabels) {
  const ScratchDir scratch;
  json sweep = sweep_of("llama-tiny", "gb200-nvl72");
  const std::string file = scratch.file("s.json", sweep.dump()), out = scratch.path() + "/out";
  const Finished before = spillway_cli({"sweep", file, "--out", out});
  ASSERT_EQ(before.exit_code, 0) << before.err;
  EXPECT_THAT(before.err, Not(HasSubstr("left out")));
  sweep["points"][0]["label"] = "renamed";
  sweep["points"][1] = {{"label", "added"}, {"policy", "minimal"}};
  scratch.file("s.json", sweep.dump());
  const Finished after = spillway_cli({"sweep", file, "--out", out});
  EXPECT_EQ(after.exit_code, 0) << after.err;
  EXPECT_THAT(after.err, HasSubstr("1 of 3 rows there left out"));
  EXPECT_THAT(after.out, AllOf(HasSubstr("renamed"), HasSubstr("added"), Not(HasSubstr("plain")),
                               Not(HasSubstr("elsewhere"))));
  EXPECT_THAT(read_file(out + "/results.jsonl"), HasSubstr("elsewhere")) << "the row is kept";
  EXPECT_EQ(after.out, spillway_cli({"sweep", file, "--out", scratch.path() + "/fresh"}).out);
}

// A sweep that had nothing to execute must not have decided how often what it gets later runs.
TEST(ChangedInputs, AnExecutedPointAddedLaterHasItsSteps) {
  const ScratchDir scratch;
  json sweep = sweep_of("llama-tiny", "gb200-nvl72");
  const std::string file = scratch.file("s.json", sweep.dump()), out = scratch.path() + "/out";
  ASSERT_EQ(spillway_cli({"sweep", file, "--out", out}).exit_code, 0);
  const json executed = {{"executor", "cpu"}, {"devices", 1}, {"layers", 2},   {"seq", 16},
                         {"steps", 3},        {"warmup", 1},  {"label", "run"}};
  sweep["points"].push_back(executed);
  scratch.file("s.json", sweep.dump());
  const Finished after = spillway_cli({"sweep", file, "--out", out});
  EXPECT_EQ(after.exit_code, 0) << after.err;
  EXPECT_THAT(after.out, HasSubstr("run"));
}

}  // namespace
}  // namespace spillway
