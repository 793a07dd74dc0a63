#include "reports/rows.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "tests/reports/support.h"

namespace spillway {
namespace {

using testing::empty_result;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

// A directory of its own, removed at the end.
class Rows : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(::testing::TempDir()) / (std::string("spillway_rows_") + info->name());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string file(const std::string& name, const std::string& contents) {
    const fs::path path = directory_ / name;
    std::ofstream(path, std::ios::binary) << contents;
    return path.string();
  }
  std::vector<Row> read(const std::vector<std::string>& paths) {
    return read_rows(paths, [this](const std::string& line) { warnings_.push_back(line); });
  }
  std::string refusal(const std::string& contents) {
    try {
      read({file("results.jsonl", contents)});
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }

  fs::path directory_;
  std::vector<std::string> warnings_;
};

std::string line(const std::string& label) { return empty_result(label, "measured").dump() + "\n"; }

std::string line_with(const std::string& key, const nlohmann::json& value) {
  nlohmann::json result = empty_result("a", "measured");
  result[key] = value;
  return result.dump() + "\n";
}

TEST_F(Rows, ReadsADirectoryAndFilesInTurn) {
  file("results.jsonl", line("a") + "\r\n" + line("b"));
  const std::string other = file("other.jsonl", line("c"));
  const std::vector<Row> rows = read({directory_.string(), other});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].label + rows[1].label + rows[2].label, "abc");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Rows, DropsTheHalfLineOfAKilledSweepAtEveryLength) {
  const std::string whole = line("a");
  const std::string half =
      R"({"label": "b", "status": "ok", "kind": "measured", "checked": true, "config": {}})"
      "\n";
  for (size_t length = 1; length + 1 < half.size(); ++length) {
    warnings_.clear();
    const auto rows = read({file("results.jsonl", whole + half.substr(0, length))});
    ASSERT_EQ(rows.size(), 1u) << length;
    ASSERT_EQ(warnings_.size(), 1u) << length;
    EXPECT_THAT(warnings_[0], HasSubstr("results.jsonl:2"));
  }
  EXPECT_EQ(read({file("results.jsonl", whole + half.substr(0, half.size() - 1))}).size(), 2u);
}

TEST_F(Rows, RefusesAHalfLineThatIsNotTheLast) {
  EXPECT_THAT(refusal(line("a") + line("b").substr(0, 40) + "\n" + line("c")),
              HasSubstr("results.jsonl:2: found a line that is not JSON"));
  EXPECT_THAT(refusal("{\"status\": nan}\n"), HasSubstr("results.jsonl:1"));
  EXPECT_THAT(refusal("{\"status\": 1e999}\n"), HasSubstr("results.jsonl:1"));
  EXPECT_THAT(refusal("[1]\n"), HasSubstr("results.jsonl:1: found [1], expected a JSON object"));
}

TEST_F(Rows, NamesFileLineKeyFoundAndExpected) {
  for (const char* key : {"status", "kind", "checked", "config"}) {
    nlohmann::json result = empty_result("a", "measured");
    result.erase(key);
    EXPECT_THAT(refusal(line("ok") + result.dump() + "\n"),
                HasSubstr(std::string("results.jsonl:2: key \"") + key + "\" is missing"));
  }
  const std::vector<std::pair<std::string, nlohmann::json>> mistyped = {
      {"status", "fine"},
      {"kind", "guessed"},
      {"checked", nullptr},
      {"config", nlohmann::json()},
      {"step_seconds", 3},
      {"peak_hbm_bytes", "12"},
      {"peak_hbm_bytes", -12},
      {"tflops_per_s_per_device", -0.5},
      {"step_seconds", {{"median", -1}}},
      {"transfers", {1, 2}},
      {"fitted", "0.6"},
      {"loss", 1.5},
      {"timeline", {{"a", 1}}},
      {"op_seconds", {{"m", "x"}}},
      {"label", 7}};
  for (const auto& [key, value] : mistyped)
    EXPECT_THAT(refusal(line_with(key, value)), HasSubstr("results.jsonl:1: key \"" + key + "\""));
}

TEST_F(Rows, JoinsPublishedResultsById) {
  const auto rows =
      read({file("results.jsonl", line_with("published", "llama3.1-405b/qkv-offload-lhs"))});
  ASSERT_TRUE(rows[0].published.has_value());
  EXPECT_EQ(rows[0].published->tflops_per_s_per_device, 2746);
  EXPECT_THAT(refusal(line_with("published", "llama3.1-405b/other")),
              HasSubstr("results.jsonl:1: published: found 'llama3.1-405b/other'"));
}

TEST_F(Rows, ALoneRunIsLabelledByItsConfig) {
  nlohmann::json result = empty_result("", "measured");
  result.erase("label");
  result["config"] = {{"policy", "full"}, {"lhs", "on"}, {"pipeline", "off"}};
  EXPECT_EQ(row_of(result, "r").label, "full, LHS");
}

TEST_F(Rows, UnreadablePathIsNamed) {
  EXPECT_THROW(read({"/nonexistent/results"}), InputError);
  EXPECT_THROW(read({directory_.string()}), InputError);  // holds no results.jsonl
}

TEST_F(Rows, SampleRoundTrips) {
  std::string lines;
  for (const Row& row : testing::sample_rows())
    lines += row.result.dump() + "\n";
  const auto rows = read({file("results.jsonl", lines)});
  ASSERT_EQ(rows.size(), testing::sample_rows().size());
  EXPECT_EQ(rows[1].result, testing::sample_rows()[1].result);
}

}  // namespace
}  // namespace spillway
