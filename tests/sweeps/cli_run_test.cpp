// The command line: runs, sweeps and reports, through the program itself.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

// What the documentation promises of `run --json`.
const Words& promised_fields() {
  static const Words names = {"status",
                              "reason",
                              "kind",
                              "checked",
                              "fitted",
                              "step_seconds",
                              "tflops_per_s_per_device",
                              "tflops_per_s_per_device_full_attention",
                              "executed_matmul_flops",
                              "attention_backward_extra_flops",
                              "tokens_per_s_per_device",
                              "global_batch",
                              "peak_hbm_bytes",
                              "peak_hbm_bytes_used",
                              "peak_hbm_by_role",
                              "routing",
                              "host_bytes",
                              "host_bytes_reserved",
                              "offloaded_bytes_per_step",
                              "exposed_transfer_seconds",
                              "transfers",
                              "link_bytes_per_second",
                              "loss",
                              "gradient_digest",
                              "config",
                              "environment"};
  return names;
}

void expect_roles_add_up(const json& result) {
  int64_t sum = 0;
  for (const char* role : {"parameters", "gradients", "optimizer", "kept", "in_flight",
                           "gathered_weights", "logits", "activations", "workspace", "holes"}) {
    ASSERT_TRUE(result["peak_hbm_by_role"].contains(role)) << role;
    sum += result["peak_hbm_by_role"][role].get<int64_t>();
  }
  EXPECT_EQ(result["peak_hbm_by_role"].size(), 10U);
  EXPECT_EQ(result["peak_hbm_bytes"], sum);
}

// The result of `spillway run --model llama-tiny options...`, with every promised field; null are
// exactly those named.
json run(const Words& options, const std::set<std::string>& nulls,
         const std::string& model = "llama-tiny") {
  Words arguments = {"run", "--model", model, "--json", "-"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  SCOPED_TRACE(testing::PrintToString(arguments));
  const Finished finished = spillway_cli(arguments);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  const json result = finished.json();
  for (const std::string& field : promised_fields()) {
    if (!result.contains(field))
      ADD_FAILURE() << field << " is absent";
    else
      EXPECT_EQ(result[field].is_null(), nulls.count(field) == 1) << field << ": " << result[field];
  }
  expect_roles_add_up(result);
  return result;
}

const Words two_steps = {"--steps", "3", "--warmup", "1"};

const std::set<std::string> cpu_nulls = {"reason", "fitted", "routing", "link_bytes_per_second"};
const std::set<std::string> sim_nulls = {
    "reason", "fitted", "routing", "link_bytes_per_second", "loss", "gradient_digest"};
const std::set<std::string> oom_nulls = {"fitted",
                                         "routing",
                                         "step_seconds",
                                         "tflops_per_s_per_device",
                                         "tflops_per_s_per_device_full_attention",
                                         "tokens_per_s_per_device",
                                         "host_bytes_reserved",
                                         "exposed_transfer_seconds",
                                         "transfers",
                                         "link_bytes_per_second",
                                         "loss",
                                         "gradient_digest"};

TEST(CliRun, OnTheCpu) {
  const json result = run(two_steps, cpu_nulls);
  EXPECT_EQ(result["status"], "ok");
  EXPECT_EQ(result["kind"], "measured");
  EXPECT_EQ(result["step_seconds"]["n"], 2);
  EXPECT_EQ(result["loss"].size(), 3U) << "every step, warm-up included";
  // 256 tokens drawn evenly, weights near zero: the first loss is that of guessing.
  EXPECT_NEAR(result["loss"][0].get<double>(), std::log(256.0), 0.05);
  EXPECT_EQ(result["global_batch"], 2);
  EXPECT_EQ(result["host_bytes"], 0);
  EXPECT_EQ(result["config"]["model"], "llama-tiny");
  EXPECT_EQ(result["config"]["seq"], "64");
  const double seconds = result["step_seconds"]["median"];
  EXPECT_LE(result["step_seconds"]["min"], seconds);
  EXPECT_GE(result["step_seconds"]["max"], seconds);
  EXPECT_NEAR(result["tokens_per_s_per_device"].get<double>() * seconds, 2 * 64, 1e-6);
}

// T = 128 rows: Q 64 wide, K and V 32 wide, 2 bytes, 4 layers.
TEST(CliRun, OffloadMovesWhatItSaysAndChangesNoBit) {
  const json kept = run(two_steps, cpu_nulls);
  for (const Words& options :
       {Words{"--lhs", "off"}, Words{"--lhs", "on"}, Words{"--pipeline", "on"}, Words{"--poison"},
        Words{"--poison", "on", "--slow-copy", "3"}}) {
    SCOPED_TRACE(testing::PrintToString(options));
    const json moved =
        run(with(with(two_steps, {"--policy", "qkv_proj_offloaded"}), options), cpu_nulls);
    EXPECT_EQ(moved["offloaded_bytes_per_step"], 4 * 128 * (64 + 32 + 32) * 2);
    EXPECT_GE(moved["host_bytes"], 4 * 128 * (64 + 32 + 32) * 2);
    EXPECT_GE(moved["host_bytes_reserved"], moved["host_bytes"]);
    EXPECT_EQ(moved["loss"], kept["loss"]);
    EXPECT_EQ(moved["gradient_digest"], kept["gradient_digest"]);
    EXPECT_LT(moved["executed_matmul_flops"], kept["executed_matmul_flops"]);
  }
}

TEST(CliRun, TransfersAreListedByNameAndDirection) {
  const json result = run(with(two_steps, {"--policy", "qkv_proj_offloaded", "--link", "0.01"}),
                          {"reason", "fitted", "routing"});
  EXPECT_EQ(result["link_bytes_per_second"], 1e7);
  std::set<std::string> seen;
  std::map<std::string, double> bytes, seconds;  // by direction
  for (const json& transfer : result["transfers"]) {
    const std::string direction = transfer["direction"];
    seen.insert(transfer["name"].get<std::string>() + " " + direction);
    bytes[direction] += transfer["bytes"].get<double>();
    seconds[direction] += transfer["seconds"].get<double>();
    EXPECT_GE(transfer["exposed_seconds"], 0);
  }
  EXPECT_THAT(seen,
              testing::UnorderedElementsAre("query_proj d2h", "query_proj h2d", "key_proj d2h",
                                            "key_proj h2d", "value_proj d2h", "value_proj h2d"));
  for (const char* direction : {"d2h", "h2d"}) {
    EXPECT_EQ(bytes[direction], result["offloaded_bytes_per_step"]);
    // Paced. A copy that begins late on a busy machine catches up, hence the half.
    EXPECT_GE(seconds[direction], 0.5 * bytes[direction] / 1e7);
  }
}

TEST(CliRun, CapacityDecidesBeforeAnythingRuns) {
  const int64_t peak = run(two_steps, cpu_nulls)["peak_hbm_bytes"];
  EXPECT_EQ(run(with(two_steps, {"--hbm", std::to_string(peak)}), cpu_nulls)["status"], "ok");
  const json result = run(with(two_steps, {"--hbm", std::to_string(peak - 1)}), oom_nulls);
  EXPECT_EQ(result["status"], "oom");
  EXPECT_THAT(result["reason"].get<std::string>(), HasSubstr(std::to_string(peak)));
  EXPECT_THAT(result["reason"].get<std::string>(), HasSubstr(std::to_string(peak - 1)));
  const json host =
      run(with(two_steps, {"--policy", "qkv_proj_offloaded", "--host", "1KiB"}), oom_nulls);
  EXPECT_EQ(host["status"], "host_oom");
  EXPECT_THAT(host["reason"].get<std::string>(), HasSubstr("1024"));
}

// 128 rows of 4 layers in 2 bytes: Q is 64 wide, K and V 32.
TEST(CliRun, WhatFillsTheHostIsNamed) {
  const std::string reason = run(
      with(two_steps, {"--policy", "qkv_proj_offloaded", "--host", "1KiB"}), oom_nulls)["reason"];
  const size_t list = reason.find("largest there: ");
  ASSERT_NE(list, std::string::npos) << reason;
  EXPECT_THAT(reason, HasSubstr(" 65536, "));
  EXPECT_THAT(reason, testing::EndsWith(" 32768"));
  EXPECT_EQ(std::count(reason.begin() + static_cast<std::ptrdiff_t>(list), reason.end(), ','), 2)
      << "Q, K and V, nothing of the device: " << reason;
}

TEST(CliRun, Simulated) {
  const json result = run({"--executor", "sim", "--devices", "8"}, sim_nulls);
  EXPECT_EQ(result["kind"], "simulated");
  EXPECT_EQ(result["status"], "ok");
  EXPECT_EQ(result["checked"], false);
  EXPECT_EQ(result["global_batch"], 16);
  const json again = run({"--executor", "sim", "--devices", "8"}, sim_nulls);
  EXPECT_EQ(again["step_seconds"], result["step_seconds"]) << "a simulation repeats exactly";
  const json oom = run({"--executor", "sim", "--hbm", "4096"}, oom_nulls);
  EXPECT_EQ(oom["status"], "oom");
}

// 51,465.8 TFLOP executed under `full`; offloaded Q, K and V are 1,246.8 less, and 70.875 GiB of
// host memory: published shapes, by hand.
TEST(CliRun, TheFullSizeAccounts) {
  const Words published = {"--executor",
                           "sim",
                           "--devices",
                           "128",
                           "--micro-batch",
                           "2",
                           "--seq",
                           "8192",
                           "--precision",
                           "nvfp4",
                           "--projection-precision",
                           "fp8",
                           "--pipeline-collectives",
                           "on",
                           "--rotation-copies",
                           "on"};
  const json full = run(published, sim_nulls, "llama3.1-405b");
  const json moved =
      run(with(published, {"--policy", "qkv_proj_offloaded"}), sim_nulls, "llama3.1-405b");
  EXPECT_NEAR(full["executed_matmul_flops"].get<double>() / 1e12, 51465.8, 0.05);
  EXPECT_NEAR(full["attention_backward_extra_flops"].get<double>() / 1e12, 277.1, 0.05);
  EXPECT_NEAR(
      (full["executed_matmul_flops"].get<double>() - moved["executed_matmul_flops"].get<double>()) /
          1e12,
      1246.8, 0.05);
  EXPECT_EQ(full["host_bytes"], 0);
  EXPECT_EQ(moved["host_bytes"], 76101451776);
  EXPECT_EQ(moved["offloaded_bytes_per_step"], 76101451776);
  EXPECT_EQ(moved["global_batch"], 256);
}

TEST(CliRun, JsonGoesToAFileBesideThePrint) {
  const ScratchDir scratch;
  const std::string file = scratch.path() + "/result.json";
  const Finished result =
      spillway_cli({"run", "--model", "llama-tiny", "--executor", "sim", "--json", file});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("TFLOPs/s/device"));
  EXPECT_EQ(json::parse(read_file(file))["status"], "ok");
  EXPECT_EQ(spillway_cli({"run", "--model", "llama-tiny", "--executor", "sim", "--json",
                          scratch.path() + "/no/x"})
                .exit_code,
            2);
}

const char* const small_sweep = R"({
  "name": "small", "title": "three simulated points",
  "defaults": {"model": "llama-tiny", "executor": "sim", "devices": 2},
  "points": [{"label": "keep", "policy": "minimal"}, {"label": "move", "policy": "qkv_proj_offloaded"},
             {"label": "none fits", "hbm": 4096}]})";

TEST(CliSweep, RunsContinuesAndReports) {
  const ScratchDir scratch;
  const std::string file = scratch.file("small.json", small_sweep), out = scratch.path() + "/out";
  const Finished first = spillway_cli({"sweep", file, "--out", out});
  EXPECT_EQ(first.exit_code, 0) << first.err << "an out-of-memory point is a result";
  for (const char* label : {"keep", "move", "none fits", "oom"})
    EXPECT_THAT(first.out, HasSubstr(label));
  const std::string lines = read_file(out + "/results.jsonl");
  const Finished second = spillway_cli({"sweep", file, "--out", out});
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(second.out, first.out);
  EXPECT_EQ(read_file(out + "/results.jsonl"), lines) << "finished points are not run again";

  const json rows = spillway_cli({"report", out, "--format", "json"}).json()["rows"];
  ASSERT_EQ(rows.size(), 3U);
  for (const json& row : rows) {
    EXPECT_TRUE(row["published"].is_null());
    for (const std::string& field : promised_fields())
      EXPECT_TRUE(row.contains(field)) << field;
  }
}

TEST(CliSweep, AFailedPointIsARowAndTheOthersGoOn) {
  const ScratchDir scratch;
  json sweep = json::parse(small_sweep);
  sweep["points"].push_back({{"label", "mistaken"}, {"policy", "mla_q=offload"}});
  const std::string out = scratch.path() + "/out";
  const Finished result =
      spillway_cli({"sweep", scratch.file("s.json", sweep.dump()), "--out", out});
  EXPECT_EQ(result.exit_code, 1);
  const json rows = spillway_cli({"report", out, "--format", "json"}).json()["rows"];
  ASSERT_EQ(rows.size(), 4U);
  for (const json& row : rows) {
    if (row["label"] != "mistaken") continue;
    EXPECT_EQ(row["status"], "failed");
    EXPECT_THAT(row["reason"].get<std::string>(), HasSubstr("mla_q"));
    EXPECT_TRUE(row["step_seconds"].is_null());
  }
}

TEST(CliSweep, RefusesTheResultsOfAnotherSweep) {
  const ScratchDir scratch;
  const std::string out = scratch.path() + "/out";
  json other = json::parse(small_sweep);
  ASSERT_EQ(spillway_cli({"sweep", scratch.file("a.json", other.dump()), "--out", out}).exit_code,
            0);
  other["name"] = "other";
  const Finished result =
      spillway_cli({"sweep", scratch.file("b.json", other.dump()), "--out", out});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("small"));
  EXPECT_THAT(result.out, IsEmpty());
}

TEST(CliSweep, RefusesPlacesThatAreNone) {
  const ScratchDir scratch;
  const std::string file = scratch.file("s.json", small_sweep);
  const Finished nowhere = spillway_cli({"sweep", file, "--out", ""});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.err, testing::AllOf(HasSubstr("--out"), HasSubstr("empty")));
  json sweep = json::parse(small_sweep);
  sweep["name"] = "../outside";
  const Finished outside = spillway_cli({"sweep", scratch.file("o.json", sweep.dump())});
  EXPECT_EQ(outside.exit_code, 2);
  EXPECT_THAT(outside.err, testing::AllOf(HasSubstr("o.json"), HasSubstr("name")));
}

TEST(CliReport, EveryFormatToStdoutAndToAFile) {
  const ScratchDir scratch;
  const std::string out = scratch.path() + "/out";
  ASSERT_EQ(spillway_cli({"sweep", scratch.file("s.json", small_sweep), "--out", out}).exit_code,
            0);
  for (const std::string format : {"md", "html", "csv", "json"}) {
    SCOPED_TRACE(format);
    const Finished printed = spillway_cli({"report", out + "/results.jsonl", "--format", format});
    EXPECT_EQ(printed.exit_code, 0) << printed.err;
    EXPECT_THAT(printed.out, HasSubstr("none fits"));
    const std::string file = scratch.path() + "/report." + format;
    const Finished written = spillway_cli({"report", out, "--format", format, "--out", file});
    EXPECT_EQ(written.exit_code, 0) << written.err;
    EXPECT_THAT(written.out, IsEmpty());
    EXPECT_EQ(read_file(file), printed.out);
  }
  EXPECT_EQ(spillway_cli({"report", out}).out, spillway_cli({"report", out, "--format", "md"}).out);
  EXPECT_EQ(spillway_cli({"report", out, "--out", scratch.path() + "/no/such"}).exit_code, 2);
}

TEST(CliReport, ReadsWhatRunWrote) {
  const ScratchDir scratch;
  const std::string file = scratch.path() + "/one.jsonl";
  ASSERT_EQ(
      spillway_cli({"run", "--model", "llama-tiny", "--executor", "sim", "--json", file}).exit_code,
      0);
  const Finished result = spillway_cli({"report", file, "--format", "json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json rows = result.json()["rows"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["kind"], "simulated");
  EXPECT_TRUE(rows[0]["published"].is_null());
}

}  // namespace
}  // namespace spillway
