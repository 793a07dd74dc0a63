// A sweep of a tiny model from its text to its rows: order, failures, continuation, comparison of
// values, time budget.
#include "sweeps/runner.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

// Three executed variants among points that never run: four timed steps each, two a visit.
json sweep_json() {
  return json::parse(R"({
    "name": "tiny", "title": "Tiny", "steps_per_visit": 2, "seed": 7,
    "defaults": {"model": "llama-tiny", "executor": "cpu", "layers": 2, "micro_batch": 1, "seq": 16,
                 "steps": 5, "warmup": 1},
    "points": [
      {"label": "recomputed", "policy": "full"},
      {"label": "predicted", "executor": "sim", "devices": 8},
      {"label": "kept", "policy": "minimal"},
      {"label": "too large", "hbm": 1000},
      {"label": "two devices", "devices": 2, "layers": 4},
      {"label": "moved", "policy": "qkv_proj_offloaded", "pipeline": true}]})");
}

Sweep parsed(const json& sweep) { return parse_sweep(sweep.dump(), "tiny.json"); }

int64_t run_in(const std::string& directory, const json& sweep = sweep_json()) {
  Store store(directory, "tiny");
  return run_sweep(parsed(sweep), store, [](int64_t, int64_t, const std::string&, double) {});
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream in(read_file(path));
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

std::vector<json> rows_of(const std::string& directory, const char* file = "results.jsonl") {
  std::vector<json> rows;
  for (const std::string& line : lines_of(directory + "/" + file))
    rows.push_back(json::parse(line));
  return rows;
}

json row_of(const std::string& directory, const std::string& label) {
  for (const json& row : rows_of(directory))
    if (row["label"] == label) return row;
  ADD_FAILURE() << "no row " << label;
  return {};
}

std::vector<std::string> labels_of(const std::vector<json>& rows) {
  std::vector<std::string> labels;
  for (const json& row : rows)
    labels.push_back(row["label"]);
  return labels;
}

// Key and number of each visit, in the order they were made.
std::vector<std::string> visits_in(const std::string& directory) {
  std::vector<std::string> visits;
  for (const json& visit : rows_of(directory, "visits.jsonl"))
    visits.push_back(text(visit["key"].get<std::string>(), " ", visit["visit"].get<int64_t>()));
  return visits;
}

// Without what a clock decides.
json timeless(json value) {
  if (value.is_object()) {
    const bool measured = value.value("kind", json()) == "measured";
    if (measured && value["step_seconds"].is_object()) value["n"] = value["step_seconds"]["n"];
    for (const char* key : {"timeline", "projected", "tflops_per_s_per_device",
                            "tokens_per_s_per_device", "tflops_per_s_per_device_full_attention"})
      if (measured) value.erase(key);
    if (value.value("kind", json()) == "simulated") return value;
    for (auto it = value.begin(); it != value.end();)
      it = it.key().ends_with("seconds") ? value.erase(it) : std::next(it);
  }
  if (value.is_structured())
    for (json& part : value)
      part = timeless(part);
  return value;
}

std::vector<json> timeless_rows(const std::string& directory) {
  std::vector<json> rows;
  for (const json& row : rows_of(directory))
    rows.push_back(timeless(row));
  return rows;
}

TEST(RunnerTest, GivesEveryPointARow) {
  const ScratchDir scratch;
  EXPECT_EQ(run_in(scratch.path()), 1) << "failed points";
  const std::vector<json> rows = rows_of(scratch.path());
  EXPECT_THAT(labels_of(rows),
              ElementsAre("predicted", "too large", "two devices", "recomputed", "kept", "moved"))
      << "what never runs at once, then what was executed, each in the file's order";
  EXPECT_EQ(rows[0]["status"], "ok");
  EXPECT_EQ(rows[0]["kind"], "simulated");
  EXPECT_EQ(rows[0]["checked"], false);
  EXPECT_EQ(rows[1]["status"], "oom");
  EXPECT_THAT(rows[1]["reason"].get<std::string>(), HasSubstr("1000 available"));
  EXPECT_EQ(rows[2]["status"], "failed");
  EXPECT_THAT(rows[2]["reason"].get<std::string>(), HasSubstr("--devices: found 2"));
  for (size_t i = 3; i < 6; ++i) {
    EXPECT_EQ(rows[i]["status"], "ok") << rows[i]["reason"];
    EXPECT_EQ(rows[i]["kind"], "measured");
    EXPECT_EQ(rows[i]["checked"], true);
    EXPECT_EQ(rows[i]["steps"].size(), 4U);
    EXPECT_EQ(rows[i]["step_seconds"]["n"], 4);
    EXPECT_EQ(rows[i]["loss"].size(), 3U) << "of the first visit: one warm-up step and two timed";
    EXPECT_EQ(rows[i]["loss"], rows[3]["loss"]);
    EXPECT_EQ(rows[i]["gradient_digest"], rows[3]["gradient_digest"]);
    EXPECT_EQ(rows[i]["sweep"]["title"], "Tiny");
  }
  // qkv of 2 layers: 16 tokens x (64 + 32 + 32) x 2 bytes each.
  EXPECT_EQ(rows[5]["offloaded_bytes_per_step"], 2 * 16 * 128 * 2);
}

TEST(RunnerTest, VisitsInTurnsInAnOrderOfTheSeed) {
  std::set<std::vector<std::string>> orders;
  for (const int seed : {1, 2, 3, 4}) {
    const ScratchDir scratch, again;
    json sweep = sweep_json();
    sweep["seed"] = seed;
    run_in(scratch.path(), sweep);
    run_in(again.path(), sweep);
    const std::vector<json> visits = rows_of(scratch.path(), "visits.jsonl");
    ASSERT_EQ(visits.size(), 6U);
    for (const size_t round : {0U, 1U}) {
      std::set<std::string> keys;
      for (size_t turn = 0; turn < 3; ++turn) {
        EXPECT_EQ(visits[round * 3 + turn]["visit"], round);
        keys.insert(visits[round * 3 + turn]["key"].get<std::string>());
      }
      EXPECT_EQ(keys.size(), 3U) << "each once a round";
    }
    EXPECT_EQ(visits_in(scratch.path()), visits_in(again.path()));
    orders.insert(visits_in(scratch.path()));
  }
  EXPECT_GT(orders.size(), 1U);
}

TEST(RunnerTest, ReportsProgress) {
  const ScratchDir scratch;
  Store store(scratch.path(), "tiny");
  std::vector<std::string> next;
  int64_t last = 0;
  run_sweep(parsed(sweep_json()), store,
            [&](int64_t done, int64_t total, const std::string& name, double left) {
              EXPECT_GE(done, last);
              EXPECT_LT(done, total);
              EXPECT_EQ(total, 6);
              EXPECT_TRUE(left == -1 || left >= 0) << left;
              last = done;
              next.push_back(name);
            });
  EXPECT_THAT(next, testing::Contains("predicted"));
  EXPECT_THAT(next, testing::Contains("moved, visit 1"));
  EXPECT_THAT(next, testing::Contains("moved, visit 2"));
}

// The files as a kill leaves them: so many whole lines, then half of the next one.
std::string first_lines(const std::string& path, size_t count) {
  const std::vector<std::string> lines = lines_of(path);
  std::string kept;
  for (size_t i = 0; i < count; ++i)
    kept += lines.at(i) + "\n";
  if (count < lines.size()) kept += lines[count].substr(0, lines[count].size() / 2);
  return kept;
}

class ContinuedTest : public testing::Test {
 protected:
  ContinuedTest() { run_in(whole_.path()); }

  // A directory with so many results and visits, and what was resolved by then.
  void kill_at(const ScratchDir& killed, size_t results, size_t visits) const {
    killed.file("results.jsonl", first_lines(whole_.path() + "/results.jsonl", results));
    killed.file("visits.jsonl", first_lines(whole_.path() + "/visits.jsonl", visits));
    json state = json::parse(read_file(whole_.path() + "/sweep.json"));
    if (visits < 6) state.erase("rounds");
    if (results < 3) state.erase("visit");
    killed.file("sweep.json", state.dump());
  }

  ScratchDir whole_;
};

TEST_F(ContinuedTest, GivesTheSameRowsWhereverItStopped) {
  const std::vector<json> expected = timeless_rows(whole_.path());
  for (size_t line = 0; line <= 12; ++line) {  // three rows, six visits, three rows
    const size_t visits = std::clamp<size_t>(line, 3, 9) - 3;
    SCOPED_TRACE(testing::Message() << "killed after " << line << " lines");
    const ScratchDir killed;
    kill_at(killed, line - visits, visits);
    EXPECT_EQ(run_in(killed.path()), 1);
    EXPECT_EQ(timeless_rows(killed.path()), expected);
    EXPECT_EQ(visits_in(killed.path()), visits_in(whole_.path()));
  }
}

TEST_F(ContinuedTest, RunsNothingAgain) {
  const std::string results = read_file(whole_.path() + "/results.jsonl"),
                    visits = read_file(whole_.path() + "/visits.jsonl");
  EXPECT_EQ(run_in(whole_.path()), 1);
  EXPECT_EQ(read_file(whole_.path() + "/results.jsonl"), results);
  EXPECT_EQ(read_file(whole_.path() + "/visits.jsonl"), visits);
}

// Changes one visit of the variant 'moved' in a store that has all visits but no executed row yet.
class DisagreementTest : public ContinuedTest {
 protected:
  template <class Change>
  void finish_after(const ScratchDir& killed, int64_t visit, const Change& change) const {
    kill_at(killed, 3, 6);
    std::string visits;
    for (json& line : rows_of(killed.path(), "visits.jsonl"))
      visits += changed(line, visit, change).dump() + "\n";
    killed.file("visits.jsonl", visits);
    EXPECT_EQ(run_in(killed.path()), 4) << "two devices, and the three that no longer agree";
  }

  template <class Change>
  static json& changed(json& line, int64_t visit, const Change& change) {
    if (line["result"]["config"]["policy"] == "qkv_proj_offloaded" && line["visit"] == visit)
      change(line["result"]);
    return line;
  }

  static std::string reason(const ScratchDir& killed, const char* label) {
    const json row = row_of(killed.path(), label);
    EXPECT_EQ(row["status"], "failed");
    EXPECT_EQ(row["checked"], true);
    return row["reason"];
  }
};

TEST_F(DisagreementTest, AnotherGradientFailsTheRowAndNamesTheOther) {
  for (const int64_t visit : {0, 1}) {
    const ScratchDir killed;
    finish_after(killed, visit, [](json& result) { result["gradient_digest"] = "0123"; });
    EXPECT_THAT(reason(killed, "moved"),
                AllOf(HasSubstr("'recomputed'"), HasSubstr("gradient digest"), HasSubstr("0123")));
    EXPECT_THAT(reason(killed, "recomputed"), HasSubstr("'moved'"));
    EXPECT_THAT(reason(killed, "kept"), HasSubstr("'moved'"));
    EXPECT_EQ(row_of(killed.path(), "predicted")["status"], "ok");
  }
}

TEST_F(DisagreementTest, TheLastBitOfALossIsEnough) {
  const ScratchDir killed;
  finish_after(killed, 0, [](json& result) {
    result["loss"][1] = std::nextafter(result["loss"][1].get<double>(), 100.0);
  });
  EXPECT_THAT(reason(killed, "moved"),
              AllOf(HasSubstr("'recomputed'"), HasSubstr("loss of step 1")));
}

TEST(RunnerTest, ComparesOnlyWhatMustAgree) {
  json sweep = sweep_json();
  sweep["points"] = {{{"label", "a"}, {"seed", 1}}, {{"label", "b"}, {"seed", 2}}};
  const ScratchDir scratch;
  EXPECT_EQ(run_in(scratch.path(), sweep), 0);
  const json a = row_of(scratch.path(), "a"), b = row_of(scratch.path(), "b");
  EXPECT_NE(a["gradient_digest"], b["gradient_digest"]);
  EXPECT_EQ(a["checked"], false);
  EXPECT_EQ(b["checked"], false);
}

// A second a sweep is far too little for 10^5 steps: rounds end early, for all variants alike.
TEST(RunnerTest, ATimeBudgetCutsAllVariantsEqually) {
  json sweep = sweep_json();
  sweep["time_budget_seconds"] = 1;
  sweep["defaults"]["steps"] = 100001;
  const ScratchDir scratch;
  EXPECT_EQ(run_in(scratch.path(), sweep), 1);
  const json n = row_of(scratch.path(), "kept")["step_seconds"]["n"];
  EXPECT_GE(n.get<int64_t>(), 1);
  EXPECT_LT(n.get<int64_t>(), 100000);
  for (const char* label : {"recomputed", "moved"})
    EXPECT_EQ(row_of(scratch.path(), label)["step_seconds"]["n"], n) << label;
  const size_t visits = visits_in(scratch.path()).size();
  EXPECT_EQ(visits % 3, 0U);
  // Continued with all the time in the world it keeps to what it decided.
  sweep["time_budget_seconds"] = 1000;
  EXPECT_EQ(run_in(scratch.path(), sweep), 1);
  EXPECT_EQ(visits_in(scratch.path()).size(), visits);
}

TEST(RunnerTest, ABudgetWithoutRoomForTheWarmupLeavesItOut) {
  json sweep = sweep_json();
  sweep["time_budget_seconds"] = 1;
  sweep["defaults"].update({{"steps", 1000002}, {"warmup", 1000000}});
  const ScratchDir scratch;
  EXPECT_EQ(run_in(scratch.path(), sweep), 1);
  const json row = row_of(scratch.path(), "moved");
  EXPECT_EQ(row["config"]["warmup"], "0");
  EXPECT_LE(row["loss"].size(), 2U);
  EXPECT_EQ(row["steps"].size(), row["loss"].size());
  EXPECT_EQ(row["checked"], true);
}

TEST(RunnerTest, ABudgetWithoutRoomForAVisitTimesOneStep) {
  json sweep = sweep_json();
  sweep["time_budget_seconds"] = 1;
  sweep["steps_per_visit"] = 1000000;
  sweep["defaults"]["steps"] = 1000001;
  const ScratchDir scratch;
  EXPECT_EQ(run_in(scratch.path(), sweep), 1);
  for (const json& visit : rows_of(scratch.path(), "visits.jsonl"))
    EXPECT_EQ(visit["result"]["loss"].size(), 1U);
}

// Rates are decided once: a continued sweep uses the stored one.
TEST(RunnerTest, KeepsTheLinkRateItResolved) {
  json sweep = sweep_json();
  sweep["defaults"]["link"] = 1.5;
  const ScratchDir fresh, continued;
  run_in(fresh.path(), sweep);
  EXPECT_EQ(row_of(fresh.path(), "moved")["link_bytes_per_second"], 1.5e9);
  json state = json::parse(read_file(fresh.path() + "/sweep.json"));
  for (auto& [name, value] : state.items())
    if (name.starts_with("link ")) value = 2e9;
  continued.file("sweep.json", state.dump());
  run_in(continued.path(), sweep);
  for (const char* label : {"recomputed", "kept", "moved"})
    EXPECT_EQ(row_of(continued.path(), label)["link_bytes_per_second"], 2e9);
}

}  // namespace
}  // namespace spillway
