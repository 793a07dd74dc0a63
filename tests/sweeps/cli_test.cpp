// The command line: help, lists, descriptions, and how bad input is refused. Runs are
// cli_run_test.cpp.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "sweeps/point.h"
#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

void expect_run_refused(const Words& options, const Words& mentions) {
  Words arguments = {"run", "--model", "llama-tiny", "--json", "-"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  expect_refused(arguments, mentions);
}

TEST(CliHelp, EverySubcommandHasAnExample) {
  for (const char* command : {"list", "describe", "run", "capacity", "sweep", "report", "explain",
                              "sensitivity", "doctor"}) {
    SCOPED_TRACE(command);
    const Finished result = spillway_cli({command, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, IsEmpty());
    EXPECT_THAT(result.out, HasSubstr(std::string("Example:\n  spillway ") + command));
    EXPECT_THAT(spillway_cli({"--help"}).out, HasSubstr(command));
  }
}

TEST(CliHelp, RunShowsEveryOptionOfAPoint) {
  const std::string help = spillway_cli({"run", "--help"}).out;
  for (const Field& field : fields()) {
    EXPECT_THAT(help, HasSubstr(std::string("--") + field.name + " "));
    EXPECT_THAT(help, HasSubstr(field.value));
  }
}

TEST(CliHelp, Version) {
  const Finished result = spillway_cli({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(CliUsage, WrongUsageIsRefused) {
  expect_refused({}, {"subcommand"});
  expect_refused({"fly"}, {"fly"});
  expect_refused({"list"}, {"kind"});
  expect_refused({"list", "planets"}, {"planets", "models", "published"});
  expect_refused({"list", "models", "--yaml"}, {"--yaml"});
  expect_refused({"describe"}, {"--model"});
  expect_refused({"describe", "--model", "llama-tiny", "--steps", "3"}, {"--steps"});
  expect_refused({"run"}, {"--model"});
  expect_refused({"sweep"}, {"file"});
  expect_refused({"report"}, {"results"});
  expect_run_refused({"--polciy", "full"}, {"--polciy"});
  expect_run_refused({"extra"}, {"extra"});
  expect_run_refused({"--seq"}, {"--seq"});
  expect_run_refused({"--seq", "8", "--seq", "16"}, {"--seq"});
}

TEST(CliUsage, SizesMustBePositiveWholeNumbers) {
  for (const char* option : {"--micro-batch", "--seq", "--layers", "--devices", "--steps"})
    for (const char* value : {"0", "-1", "1.5", "two", ""})
      expect_run_refused({option, value}, {option, std::string("'") + value + "'", "at least 1"});
  expect_run_refused({"--micro-batch=-1"}, {"--micro-batch", "-1"});
  expect_run_refused({"--warmup", "-1"}, {"--warmup", "-1", "at least 0"});
  expect_run_refused({"--hbm", "0"}, {"--hbm", "'0'", "positive"});
  expect_run_refused({"--host", "-5GiB"}, {"--host", "-5GiB", "positive"});
  expect_run_refused({"--link", "0"}, {"--link", "'0'", "greater than 0"});
  expect_refused({"describe", "--model", "llama-tiny", "--seq", "0"},
                 {"--seq", "'0'", "at least 1"});
}

TEST(CliUsage, OptionsThatContradictEachOther) {
  expect_run_refused({"--warmup", "10"}, {"--warmup", "10", "--steps"});
  expect_run_refused({"--steps", "3", "--warmup", "3"}, {"--warmup", "3", "--steps 3"});
  expect_run_refused({"--executor", "cuda"}, {"--executor", "cuda", "cpu"});
  expect_run_refused({"--executor", "gpu"}, {"--executor", "gpu", "cpu, sim or cuda"});
  expect_run_refused({"--devices", "2"}, {"--devices", "2", "sim"});
  expect_run_refused({"--link", "match:gb200-nvl72"}, {"--link", "llama-tiny", "proxy"});
  expect_run_refused({"--moe", "capacity"}, {"--moe", "capacity", "llama-tiny", "dense"});
  expect_run_refused({"--routing", "zipf:1.2"}, {"--routing", "zipf:1.2", "dense"});
  expect_run_refused({"--ragged-buffer-factor", "2"},
                     {"--ragged-buffer-factor: found 2", "--expert-parallel"});
  expect_run_refused({"--executor", "sim", "--devices", "8", "--expert-parallel", "4"},
                     {"--expert-parallel", "4", "dense"});
}

TEST(CliUsage, UnknownPoliciesListThoseThatExist) {
  const json policies = spillway_cli({"list", "policies", "--json"}).json();
  Words names = {"fulll"};
  for (const json& policy : policies)
    names.push_back(policy["name"]);
  EXPECT_GE(names.size(), 8U);
  expect_run_refused({"--policy", "fulll"}, names);
  expect_run_refused({"--policy", "query_prj=offload"},
                     {"query_prj", "query_proj", "key_proj", "value_proj", "context", "out_proj",
                      "mlpwi_0", "mlpwi_1", "mlpwo", "decoder_layer_input"});
  expect_run_refused({"--policy", "qkv_proj=offload"},
                     {"qkv_proj", "query_proj", "key_proj", "value_proj"});
  expect_run_refused({"--policy", "query_proj=disk"}, {"disk", "device, offload or remat"});
  expect_run_refused({"--policy", "decoder_layer_input=remat"}, {"decoder_layer_input", "remat"});
}

TEST(CliUsage, UnknownAndUnreadableFiles) {
  const ScratchDir scratch;
  const std::string absent = scratch.path() + "/absent.json";
  const std::string empty = scratch.file("empty.json", "");
  const std::string binary = scratch.file("binary.json", std::string("\0\1\2\xff", 4));
  const std::string other = scratch.file("other.json", "{\"no\": \"model\"}");
  for (const std::string& file : {absent, scratch.path(), empty, binary, other}) {
    expect_refused({"describe", "--model", file, "--json"}, {file});
    expect_refused({"run", "--model", file, "--json", "-"}, {file});
    expect_refused({"sweep", file, "--out", scratch.path() + "/out"}, {file});
    expect_run_refused({"--executor", "sim", "--machine", file}, {file});
  }
  for (const std::string& file : {absent, scratch.path(), binary, other})
    expect_refused({"report", file}, {file});
  expect_refused({"run", "--model", "llama-9"}, {"llama-9", "llama3.1-405b"});
  expect_refused({"sweep", "slowstart"}, {"slowstart", "quickstart"});
  expect_refused({"sweep", "quickstart", "--jobs", "0"}, {"--jobs", "'0'", "at least 1"});
  expect_run_refused({"--executor", "sim", "--machine", "gb300"}, {"gb300", "gb200-nvl72"});
  expect_refused({"report", scratch.path(), "--format", "pdf"},
                 {"pdf", "md", "html", "csv", "json"});
}

TEST(CliUsage, MalformedSweepsNameLineAndKey) {
  const ScratchDir scratch;
  const std::string broken =
      scratch.file("broken.json", "{\n  \"name\": \"x\",\n  \"points\": [}\n");
  expect_refused({"sweep", broken}, {broken, "line 3", "column"});
  const std::string unknown = scratch.file(
      "unknown.json", R"({"name": "x", "title": "x", "points": [{"label": "a", "sequence": 8}]})");
  expect_refused({"sweep", unknown}, {unknown, "'a'", "sequence", "seq"});
}

// tests/sweeps/cases/expected.json says for each config of tests/workloads/cases what comes out.
std::vector<json> cases(const std::string& outcome) {
  const json all = json::parse(read_file(SPILLWAY_SOURCE_DIR "/tests/sweeps/cases/expected.json"));
  std::vector<json> found;
  for (const json& entry : all["configs"])
    if (entry["outcome"] == outcome) found.push_back(entry);
  return found;
}

TEST(CliCases, BadConfigsAreRefusedByFileAndKey) {
  const std::vector<json> bad = cases("error");
  EXPECT_EQ(bad.size(), 7U);
  for (const json& entry : bad) {
    const std::string file = case_file(entry["file"]);
    Words mentions = entry["must_mention"];
    mentions.push_back(entry["file"]);
    expect_refused({"describe", "--model", file, "--json"}, mentions);
    expect_refused({"describe", "--model", file}, mentions);
    expect_refused({"run", "--model", file, "--json", "-"}, mentions);
    expect_refused({"run", "--model", file, "--executor", "sim"}, mentions);
  }
}

TEST(CliCases, DescribeToTheLastDigit) {
  const std::vector<json> good = cases("ok");
  EXPECT_EQ(good.size(), 8U);
  for (const json& entry : good) {
    SCOPED_TRACE(entry["file"]);
    const Finished result =
        spillway_cli({"describe", "--json", "--model", case_file(entry["file"]), "--micro-batch",
                      entry["batch"].dump(), "--seq", entry["seq"].dump()});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const json described = result.json();
    for (const auto& [key, value] : entry["values"].items())
      EXPECT_EQ(described[key], value) << key;
  }
}

TEST(CliCases, AKeyGivenTwiceIsWarnedAboutAndTheLastCounts) {
  const json entry = cases("ok_or_error").at(0);
  const Finished result = spillway_cli({"describe", "--json", "--model", case_file(entry["file"])});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("num_key_value_heads"));
  EXPECT_THAT(result.err, HasSubstr(entry["file"].get<std::string>()));
  const json described = result.json();
  for (const auto& [key, value] : entry["values"].items())
    EXPECT_EQ(described[key], value) << key;
}

// The shipped model, at a size where every activation has more than 2^31 bytes. Per token and layer
// a matmul weight of n elements costs 6n FLOPs, attention 12 s (heads x head size) by the full
// square.
TEST(CliDescribe, LargeShapesAreExact) {
  constexpr int64_t batch = 8, seq = 32768, tokens = batch * seq;
  constexpr int64_t hidden = 16384, ffn = 53248, vocabulary = 128256, layers = 126, kv = 8 * 128;
  constexpr int64_t weights =
      layers * (2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * ffn) + vocabulary * hidden;
  constexpr int64_t attention = 12 * layers * tokens * seq * hidden;
  const json described = spillway_cli({"describe", "--model", "llama3.1-405b", "--micro-batch", "8",
                                       "--seq", "32768", "--json"})
                             .json();
  EXPECT_EQ(described["flops_step_full"], 6 * tokens * weights + attention);
  EXPECT_EQ(described["flops_step_causal"], 6 * tokens * weights + attention / 2);
  EXPECT_EQ(described["q_bytes"], 8589934592);  // 2^33
  EXPECT_EQ(described["k_bytes"], 536870912);
  EXPECT_EQ(described["qkv_bytes_per_layer"], 9663676416);
  EXPECT_EQ(described["qkv_bytes_all_layers"], 1217623228416);
  EXPECT_EQ(described["params_total"], 405853388800);
}

TEST(CliDescribe, HasEveryFieldAndTheActivations) {
  const json described = spillway_cli({"describe", "--model", "llama-tiny", "--json"}).json();
  for (const char* key :
       {"params_total", "params_active", "dense_layers", "moe_layers", "head_dim", "kv_heads",
        "q_bytes", "k_bytes", "v_bytes", "qkv_bytes_per_layer", "qkv_bytes_all_layers",
        "flops_step_causal", "flops_step_full", "activations"})
    EXPECT_TRUE(described.contains(key)) << key;
  std::set<std::string> names;
  for (const json& activation : described["activations"]) {
    EXPECT_EQ(activation["layers"], 4);
    EXPECT_TRUE(activation["segment"].is_string());
    EXPECT_GT(activation["bytes"], 0);
    names.insert(activation["name"]);
  }
  EXPECT_THAT(names,
              testing::IsSupersetOf({"decoder_layer_input", "query_proj", "key_proj", "value_proj",
                                     "context", "out_proj", "mlpwi_0", "mlpwi_1", "mlpwo"}));
}

TEST(CliDescribe, MtpLayersHaveALineOfTheirOwn) {
  const Finished result = spillway_cli({"describe", "--model", "deepseek-v3"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("671026419200 parameters (37552297472 active)"));
  EXPECT_THAT(result.out, HasSubstr("\nnot counted: 1 MTP layers of 11610068224 parameters"));
  const json dense = spillway_cli({"describe", "--model", "llama-tiny", "--json"}).json();
  for (const char* key : {"mtp_unique", "total_with_mtp_stored", "moe_up_bytes_per_layer",
                          "mla_latent_bytes_per_layer"})
    EXPECT_TRUE(dense.at(key).is_null()) << key;
  EXPECT_THAT(spillway_cli({"describe", "--model", "llama-tiny"}).out, Not(HasSubstr("MTP")));
}

TEST(CliDescribe, TheProgramIsPrinted) {
  const Finished result = spillway_cli({"describe", "--model", "llama-tiny", "--program"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("layers.forward"));
  EXPECT_THAT(result.out, HasSubstr("layers.backward"));
}

TEST(CliList, EveryKindAsTableAndJson) {
  for (const std::string kind :
       {"models", "policies", "lhs-rules", "machines", "sweeps", "published"}) {
    SCOPED_TRACE(kind);
    const json rows = spillway_cli({"list", kind, "--json"}).json();
    ASSERT_TRUE(rows.is_array());
    EXPECT_FALSE(rows.empty());
    const Finished table = spillway_cli({"list", kind});
    EXPECT_EQ(table.exit_code, 0);
    for (const json& row : rows)
      EXPECT_THAT(table.out,
                  HasSubstr(row[kind == "published" ? "id" : "name"].get<std::string>()));
  }
}

TEST(CliList, WhatTheRowsSay) {
  const json published = spillway_cli({"list", "published", "--json"}).json();
  int found = 0;
  for (const json& row : published) {
    if (row["id"] == "llama3.1-405b/no-offload") {
      EXPECT_EQ(row["tflops_per_s_per_device"], 2669);
      EXPECT_TRUE(row["peak_hbm_gib"].is_null());
      ++found;
    } else if (row["id"] == "deepseek-v3/offload-lhs-pipelined") {
      EXPECT_EQ(row["peak_hbm_gib"], 165.2);
      ++found;
    }
  }
  EXPECT_EQ(found, 2);
  for (const json& machine : spillway_cli({"list", "machines", "--json"}).json())
    for (const auto& [key, figure] : machine["figures"].items())
      EXPECT_FALSE(figure["source"].get<std::string>().empty()) << key;
}

}  // namespace
}  // namespace spillway
