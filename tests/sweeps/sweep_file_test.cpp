// Sweep files: what they say, and how bad ones are refused.
#include "sweeps/sweep_file.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "harness/error.h"
#include "reports/published.h"
#include "sweeps/run.h"
#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json good() {
  return {{"name", "good"},
          {"title", "a sweep that is fine"},
          {"defaults", {{"model", "llama-tiny"}, {"executor", "sim"}, {"seq", 128}}},
          {"points",
           {{{"label", "one"}, {"policy", "full"}},
            {{"label", "two"}, {"policy", "qkv_proj_offloaded"}, {"seq", 256}}}}};
}

Sweep parsed_file(const json& file) { return parse_sweep(file.dump(), "file.json"); }

std::vector<std::string> labels_of(const Sweep& sweep) {
  std::vector<std::string> labels;
  for (const SweepPoint& point : sweep.points)
    labels.push_back(point.label);
  return labels;
}

TEST(SweepFile, PointsTakeTheDefaultsAndOverrideThem) {
  const Sweep sweep = parsed_file(good());
  EXPECT_THAT(labels_of(sweep), ElementsAre("one", "two"));
  EXPECT_EQ(sweep.points[0].point.seq, 128);
  EXPECT_EQ(sweep.points[1].point.seq, 256);
  EXPECT_EQ(sweep.points[1].point.policy, "qkv_proj_offloaded");
  EXPECT_EQ(sweep.points[1].point.executor, ExecutorKind::sim);
  EXPECT_EQ(sweep.points[0].sweep, "good");
  EXPECT_EQ(sweep.header_of(sweep.points[1]).title, "a sweep that is fine");
}

TEST(SweepFile, AxesMultiplyEveryPoint) {
  json file = good();
  file["axes"] = {{"lhs", {"on", "off"}}, {"micro_batch", {1, 2, 4}}};
  const Sweep sweep = parsed_file(file);
  ASSERT_EQ(sweep.points.size(), 12U);
  std::set<std::string> settings, keys;
  for (const SweepPoint& point : sweep.points) {
    const std::string lhs = point.point.lhs ? "on" : "off";
    const std::string batch = std::to_string(point.point.micro_batch.value());
    EXPECT_THAT(point.label, HasSubstr("lhs=" + lhs));
    EXPECT_THAT(point.label, HasSubstr("micro_batch=" + batch));
    settings.insert(point.point.policy + lhs + batch);
    keys.insert(key_of(point));
  }
  EXPECT_EQ(settings.size(), 12U);
  EXPECT_EQ(keys.size(), 12U);
}

TEST(SweepFile, TheKeyIsTheContentOfAPoint) {
  json other = good();
  other["title"] = "another title";
  other["points"][0]["label"] = "renamed";
  std::swap(other["points"][0], other["points"][1]);
  const Sweep a = parsed_file(good()), b = parsed_file(other);
  EXPECT_EQ(key_of(a.points[0]), key_of(b.points[1]));
  EXPECT_EQ(key_of(a.points[1]), key_of(b.points[0]));
}

TEST(SweepFile, IncludedPointsKeepTheirSweep) {
  json file = good();
  file["include"] = {"llama3.1-405b-published"};
  const Sweep sweep = parsed_file(file);
  ASSERT_EQ(sweep.headers.size(), 2U);
  EXPECT_EQ(sweep.points.size(), 6U);
  const SweepPoint& last = sweep.points.back();
  EXPECT_EQ(last.sweep, "llama3.1-405b-published");
  EXPECT_EQ(last.point.seq, 8192) << "not the defaults of the including file";
  EXPECT_TRUE(sweep.header_of(last).calibration.has_value());
  EXPECT_FALSE(sweep.header_of(sweep.points.front()).calibration.has_value());
}

TEST(SweepFile, ALabelIsOneOfItsSweep) {
  json file = good();
  file["include"] = {"deepseek-v3-proxy", "deepseek-v3-published"};
  std::set<std::string> sweeps;
  for (const SweepPoint& point : parsed_file(file).points)
    if (point.label == "offload, LHS off") sweeps.insert(point.sweep);
  EXPECT_THAT(sweeps, ElementsAre("deepseek-v3-proxy", "deepseek-v3-published"));
}

TEST(SweepFile, APointMayStandForAPublishedOne) {
  json file = good();
  file["points"][0]["stands_for"] = "deepseek-v3/remat";
  const SweepPoint point = parsed_file(file).points.front();
  EXPECT_EQ(point.stands_for, "deepseek-v3/remat");
  EXPECT_EQ(point.published, "");
}

struct BadFile {
  const char* what;
  const char* patch;  // JSON merge patch on good()
  std::vector<const char*> mentions;
};

const std::vector<BadFile>& bad_files() {
  static const std::vector<BadFile> table = {
      {"unknown key", R"({"stpes": 3})", {"stpes", "unknown key", "steps_per_visit"}},
      {"no name", R"({"name": null})", {"name"}},
      {"name no text", R"({"name": 3})", {"name", "3"}},
      {"name with a slash", R"({"name": "../x"})", {"name", "../x", "plain file name"}},
      {"absolute name", R"({"name": "/x"})", {"name", "/x", "plain file name"}},
      {"name of two parts", R"({"name": "a/b"})", {"name", "a/b", "plain file name"}},
      {"name with a backslash", R"({"name": "a\\b"})", {"name", "plain file name"}},
      {"name with a line end", R"({"name": "a\nb"})", {"name", "a\\nb", "plain file name"}},
      {"name of the directory above", R"({"name": ".."})", {"name", "\"..\"", "plain file name"}},
      {"name of the directory itself", R"({"name": "."})", {"name", "\".\"", "plain file name"}},
      {"empty title", R"({"title": ""})", {"title"}},
      {"no points", R"({"points": null})", {"points"}},
      {"empty points", R"({"points": []})", {"points", "at least one"}},
      {"points no list", R"({"points": {"label": "one"}})", {"points", "array"}},
      {"point no object", R"({"points": ["one"]})", {"points", "one", "object"}},
      {"no label", R"({"points": [{"policy": "full"}]})", {"label"}},
      {"label twice", R"({"points": [{"label": "a"}, {"label": "a", "seq": 1}]})", {"'a' twice"}},
      {"point twice",
       R"({"points": [{"label": "a"}, {"label": "b"}]})",
       {"'b'", "every point once"}},
      {"unknown field",
       R"({"points": [{"label": "a", "sequence": 8}]})",
       {"'a'", "sequence", "seq"}},
      {"bad value",
       R"({"points": [{"label": "a", "seq": -8}]})",
       {"'a'", "seq", "-8", "at least 1"}},
      {"unknown policy", R"({"points": [{"label": "a", "policy": "ful"}]})", {"ful", "minimal"}},
      {"bad default",
       R"({"defaults": {"lhs": "maybe"}})",
       {"defaults", "lhs", "maybe", "on or off"}},
      {"defaults no object", R"({"defaults": [1]})", {"defaults", "object"}},
      {"unknown id it stands for",
       R"({"points": [{"label": "a", "stands_for": "x/y"}]})",
       {"'a'", "x/y", "deepseek-v3/remat"}},
      {"unknown published",
       R"({"points": [{"label": "a", "published": "x/y"}]})",
       {"x/y", "no-offload"}},
      {"warm-up",
       R"({"points": [{"label": "a", "steps": 2, "warmup": 2}]})",
       {"'a'", "--warmup", "2"}},
      {"no model", R"({"defaults": {"model": null}})", {"model"}},
      {"axis unknown", R"({"axes": {"sequence": [1]}})", {"axes", "sequence"}},
      {"axis no list", R"({"axes": {"seq": 8}})", {"axes.seq", "8", "array"}},
      {"axis empty",
       R"({"axes": {"seq": []}})",
       {"axes.seq", "found an empty array", "at least one"}},
      {"axis bad value", R"({"axes": {"seq": [0]}})", {"axes", "seq", "0"}},
      {"axis that changes nothing", R"({"axes": {"seq": [8, 8]}})", {"twice"}},
      {"axes no object", R"({"axes": [["seq", 8]]})", {"axes", "object"}},
      {"steps of no visit", R"({"steps_per_visit": 0})", {"steps_per_visit", "0", "at least 1"}},
      {"half a step", R"({"steps_per_visit": 1.5})", {"steps_per_visit", "1.5"}},
      {"negative budget", R"({"time_budget_seconds": -1})", {"time_budget_seconds", "-1"}},
      {"seed a text", R"({"seed": "1"})", {"seed"}},
      {"include unknown", R"({"include": ["nowhere"]})", {"nowhere", "llama3.1-405b-published"}},
      {"include no text", R"({"include": [3]})", {"include", "3"}},
      {"include no list", R"({"include": "quickstart"})", {"include", "array"}},
      {"hypothesis without text",
       R"({"hypotheses": [{"id": "H", "setting": "s", "status": "x"}]})",
       {"hypotheses.text"}},
      {"hypothesis unknown key",
       R"({"hypotheses": [{"name": "H"}]})",
       {"hypotheses.name", "setting"}},
      {"other figure",
       R"({"calibrate": {"figure": "hbm_bytes", "on": "one"}})",
       {"calibrate.figure", "hbm_bytes", "matmul_efficiency"}},
      {"other label",
       R"({"calibrate": {"figure": "matmul_efficiency", "on": "nine"}})",
       {"calibrate.on", "nine"}},
      {"nothing published",
       R"({"calibrate": {"figure": "matmul_efficiency", "on": "one"}})",
       {"calibrate.on", "one", "published"}},
  };
  return table;
}

// Removing a key whose patch is null is what a merge patch does.
TEST(SweepFile, BadFilesAreRefusedByFileAndKey) {
  for (const BadFile& bad : bad_files()) {
    SCOPED_TRACE(bad.what);
    json file = good();
    file.merge_patch(json::parse(bad.patch));
    try {
      parsed_file(file);
      ADD_FAILURE() << "accepted";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("file.json"));
      for (const char* word : bad.mentions)
        EXPECT_THAT(error.what(), HasSubstr(word));
    }
  }
}

std::string refusal_of(const std::string& text) {
  try {
    parse_sweep(text, "file.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(SweepFile, ADocumentThatIsNoObjectIsRefusedAsThat) {
  EXPECT_EQ(refusal_of("[]"), "file.json: the document: found an array, expected an object");
  EXPECT_EQ(refusal_of("7"), "file.json: the document: found 7, expected an object");
}

TEST(SweepFile, AxesOfTooManyPointsAreRefusedBeforeTheyAreMultiplied) {
  json file = good(), values = json::array();
  for (int i = 1; i <= 1000; ++i)
    values.push_back(i);
  file["axes"] = {{"seq", values}, {"seed", values}};
  EXPECT_EQ(refusal_of(file.dump()),
            "file.json: axes: found 2000000 points, expected at most 100000");
  for (const char* field : {"layers", "micro_batch", "devices", "steps", "hbm", "host"})
    file["axes"][field] = values;
  EXPECT_EQ(refusal_of(file.dump()),
            "file.json: axes: found more than 9223372036854775807 points, expected at most 100000");
  values.erase(values.begin() + 50, values.end());
  file["axes"] = {{"seq", values}, {"seed", values}};
  EXPECT_EQ(parsed_file(file).points.size(), 5000U);
}

TEST(SweepFile, MalformedJsonIsRefusedByLineAndColumn) {
  for (const char* text :
       {"", "{\n \"name\": \"x\",\n \"points\": [}\n}", "{\n \"name\": \"x\"", "{\n} x"}) {
    SCOPED_TRACE(text);
    try {
      parse_sweep(text, "broken.json");
      ADD_FAILURE() << "accepted";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("broken.json"));
      EXPECT_THAT(error.what(), HasSubstr("line"));
      EXPECT_THAT(error.what(), HasSubstr("column"));
    }
  }
  try {
    parse_sweep(R"({"name": "a", "name": "b"})", "twice.json");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("twice.json"));
    EXPECT_THAT(error.what(), HasSubstr("name"));
  }
}

TEST(SweepFile, AFileThatIncludesItselfIsRefused) {
  const ScratchDir scratch;
  json file = good();
  file["include"] = {scratch.path() + "/self.json"};
  const std::string path = scratch.file("self.json", file.dump());
  EXPECT_THROW(load_sweep(path), InputError);
}

TEST(SweepFile, FilesThatCannotBeReadAreRefusedByName) {
  const ScratchDir scratch;
  for (const std::string& path : {scratch.path(), scratch.path() + "/absent.json"}) {
    try {
      load_sweep(path);
      ADD_FAILURE() << "accepted " << path;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path));
      EXPECT_THAT(error.what(), HasSubstr("quickstart"));
    }
  }
}

TEST(ShippedSweeps, LoadByNameWithAndWithoutSuffix) {
  ASSERT_THAT(sweep_names(), testing::IsSupersetOf({"llama3.1-405b-published", "quickstart"}));
  for (const std::string& name : sweep_names()) {
    SCOPED_TRACE(name);
    const Sweep sweep = load_sweep(name);
    EXPECT_EQ(sweep.headers.front().name, name);
    EXPECT_EQ(labels_of(load_sweep(name + ".json")), labels_of(sweep));
  }
}

// Four rows, the published settings, and labels as published.
TEST(ShippedSweeps, ThePublishedRows) {
  const Sweep sweep = load_sweep("llama3.1-405b-published");
  ASSERT_EQ(sweep.points.size(), 4U);
  for (const SweepPoint& point : sweep.points) {
    SCOPED_TRACE(point.label);
    const Published& published = find_published(point.published);
    EXPECT_EQ(point.label, published.label);
    EXPECT_EQ(point.point.model, published.workload);
    EXPECT_EQ(point.point.executor, ExecutorKind::sim);
    EXPECT_EQ(point.point.devices, 128);
    EXPECT_EQ(point.point.micro_batch, 2);
    EXPECT_EQ(point.point.seq, 8192);
    EXPECT_EQ(point.point.precision, Precision::nvfp4);
    EXPECT_EQ(point.point.projection_precision, Precision::fp8);
    EXPECT_TRUE(point.point.pipeline_collectives && point.point.rotation_copies);
    EXPECT_EQ(point.point.policy == "full", point.label == "no offload");
    EXPECT_EQ(point.point.lhs, point.label.find("LHS off") == std::string::npos);
    EXPECT_EQ(point.point.pipeline, point.label.find("pipelined") != std::string::npos);
  }
  EXPECT_EQ(sweep.headers.front().calibration.value().on, "no offload");
  EXPECT_GE(sweep.headers.front().hypotheses.size(), 4U);
}

// The rows of DeepSeek-V3: 128 devices, sequence 4,096, as in the article or as assumed (H4-H7).
TEST(ShippedSweeps, ThePublishedRowsOfDeepSeek) {
  const Sweep sweep = load_sweep("deepseek-v3-published");
  std::vector<std::string> published;
  for (const SweepPoint& point : sweep.points) {
    SCOPED_TRACE(point.label);
    if (!point.published.empty()) published.push_back(point.published);
    EXPECT_EQ(point.point.model, "deepseek-v3");
    EXPECT_EQ(point.point.executor, ExecutorKind::sim);
    EXPECT_EQ(point.point.devices, 128);
    EXPECT_EQ(point.point.seq, 4096);
    EXPECT_EQ(point.point.micro_batch, point.label == "device, micro batch 2" ? 2 : 8);
    EXPECT_TRUE(point.point.moe.capacity_path);
    EXPECT_FALSE(point.point.pipeline_collectives);
    EXPECT_EQ(point.point.lhs, point.label.find("LHS off") == std::string::npos);
  }
  EXPECT_THAT(published, ElementsAre("deepseek-v3/remat", "deepseek-v3/offload-lhs-off",
                                     "deepseek-v3/offload-lhs-pipelined", "deepseek-v3/device-mb2",
                                     "deepseek-v3/device-mb8"));
  ASSERT_TRUE(sweep.headers.front().calibration.has_value());
  EXPECT_EQ(sweep.headers.front().calibration->on, "offload, LHS off");
}

std::vector<std::string> executed_labels(const Sweep& sweep, const std::string& model) {
  std::vector<std::string> labels;
  for (const SweepPoint& point : sweep.points) {
    if (point.point.executor != ExecutorKind::cpu || point.point.model != model) continue;
    labels.push_back(point.label);
    EXPECT_EQ(point.point.link, "match:gb200-nvl72");
    EXPECT_GE(point.point.steps - point.point.warmup, 10);
  }
  return labels;
}

TEST(ShippedSweeps, TheQuickstartExecutesBothProxiesAndSimulatesThePublishedRows) {
  const Sweep sweep = load_sweep("quickstart");
  EXPECT_THAT(executed_labels(sweep, "llama3.1-405b-proxy"),
              ElementsAre("device", "remat", "offload, LHS off", "offload, LHS on",
                          "offload, LHS on, pipelined", "device, HBM too small"));
  EXPECT_THAT(executed_labels(sweep, "deepseek-v3-proxy"),
              ElementsAre("device, micro batch 2", "device, micro batch 8", "remat",
                          "offload, LHS off", "offload + LHS", "offload + LHS + pipelined"));
  EXPECT_EQ(sweep.points.size(), 6U + 6 + 4 + 7);
}

// Planned only; nothing runs.
void expect_small_hbm_between(const std::string& model, const std::string& offload_policy) {
  SCOPED_TRACE(model);
  int64_t small = 0, device = 0, offloading = 0;
  for (const SweepPoint& point : load_sweep("quickstart").points) {
    if (point.point.executor != ExecutorKind::cpu || point.point.model != model) continue;
    const int64_t peak = prepare(point.point, {}).plan.device_bytes;
    if (point.point.hbm_bytes) {
      small = *point.point.hbm_bytes;
      device = peak;
    }
    if (point.point.policy == offload_policy) offloading = std::max(offloading, peak);
  }
  EXPECT_GT(offloading, 0);
  EXPECT_LE(offloading, small);
  EXPECT_LT(small, device);
}

TEST(ShippedSweeps, TheSmallHbmOfTheQuickstartFitsWhatOffloadsAndNothingMore) {
  expect_small_hbm_between("llama3.1-405b-proxy", "qkv_proj_offloaded");
  expect_small_hbm_between("deepseek-v3-proxy", "deepseek_v3_offload");
}

}  // namespace
}  // namespace spillway
