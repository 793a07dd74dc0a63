// What the command line refuses that would otherwise be ignored, lost or misunderstood; the rest of
// bad input is cli_test.cpp.
#include <gmock/gmock.h>

#include "harness/cuda/cuda_executor.h"
#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const Words tiny_run = {"run", "--model", "llama-tiny"};
const Words tiny_sim = {"run", "--model", "llama-tiny", "--executor", "sim"};
const Words tiny_describe = {"describe", "--model", "llama-tiny"};

TEST(CliRefusals, ASimulationTakesNothingFromThisCpu) {
  const Words proxy = {"run", "--model", "llama3.1-405b-proxy", "--executor", "sim"};
  expect_refused(with(proxy, {"--link", "match:gb200-nvl72"}),
                 {"--link: found 'match:gb200-nvl72', but the simulator takes the machine's link; "
                  "expected GB/s, or --executor cpu"});
  expect_refused(with(tiny_sim, {"--slow-copy", "3"}), {"--slow-copy: found 3", "--executor cpu"});
  expect_refused(with(tiny_sim, {"--poison"}), {"--poison: found on", "--executor cpu"});
  const Finished defaults =
      spillway_cli(with(tiny_sim, {"--slow-copy", "1", "--poison", "off", "--link", "200"}));
  EXPECT_EQ(defaults.exit_code, 0) << defaults.err;
}

TEST(CliRefusals, WhatOnlyAGpuHas) {
  for (const Words& run : {tiny_run, tiny_sim}) {
    expect_refused(with(run, {"--cuda-graph", "on"}), {"--cuda-graph", "--executor cuda"});
    expect_refused(with(run, {"--attention", "plain"}), {"--attention", "--executor cuda"});
    expect_refused(with(run, {"--l2-flush", "on"}), {"--l2-flush", "--executor cuda"});
    expect_refused(with(run, {"--timestamps", "off"}), {"--timestamps", "--executor cuda"});
    expect_refused(with(run, {"--matmul", "plain"}), {"--matmul", "--executor cuda"});
    expect_refused(with(run, {"--algorithms", "f"}), {"--algorithms", "--executor cuda"});
  }
  expect_refused(with(tiny_run, {"--executor", "cuda", "--link", "2"}),
                 {"--link: found '2'", "--executor cpu"});
}

// The projections of bf16 and fp32 are bf16 and fp32.
TEST(CliRefusals, APrecisionOfProjectionsAloneIsAMistake) {
  for (const Words& run : {tiny_run, tiny_sim, with(tiny_sim, {"--precision", "fp32"})})
    expect_refused(with(run, {"--projection-precision", "fp8"}),
                   {"--projection-precision: found fp8", "expected --precision fp8 or nvfp4"});
}

TEST(CliRefusals, ASweepOfThemRunsNothing) {
  const ScratchDir scratch;
  const std::string file = scratch.file("s.json", R"({"name": "s", "title": "s",
      "points": [{"label": "a", "model": "llama-tiny", "executor": "sim", "poison": true}]})");
  expect_refused({"sweep", file, "--out", scratch.path() + "/out"}, {"'a'", "--poison"});
}

TEST(CliRefusals, ASweepOnAGpuNeedsOne) {
  const CudaState state = cuda_state();
  if (state.problem.empty()) GTEST_SKIP() << "this machine has a GPU";
  const ScratchDir scratch;
  const std::string file = scratch.file("s.json", R"({"name": "s", "title": "s",
      "points": [{"label": "a", "model": "llama-tiny", "executor": "sim"},
                 {"label": "b", "model": "llama-tiny", "executor": "cuda"}]})");
  expect_refused({"sweep", file, "--out", scratch.path() + "/out"},
                 {"--executor", state.problem, "expected cpu or sim"});
}

TEST(CliRefusals, DescribeKnowsTheNamesOfItsModel) {
  for (const Words& more : {Words{}, Words{"--json"}, Words{"--program"}})
    expect_refused(with(with(tiny_describe, {"--policy", "bogus=device"}), more),
                   {"bogus", "query_proj", "mlpwo"});
  const Finished known = spillway_cli(with(tiny_describe, {"--policy", "mlpwo=device"}));
  EXPECT_EQ(known.exit_code, 0) << known.err;
}

TEST(CliRefusals, JsonOfDescribeAndCapacityGoesToStdout) {
  const std::string bare = spillway_cli(with(tiny_describe, {"--json"})).out;
  EXPECT_EQ(bare.front(), '{');
  EXPECT_EQ(spillway_cli(with(tiny_describe, {"--json", "-"})).out, bare);
  EXPECT_EQ(spillway_cli(with(tiny_describe, {"--json=-"})).out, bare);
  expect_refused(with(tiny_describe, {"--json=x.json"}), {"--json", "'x.json'", "- for stdout"});
  expect_refused(with(tiny_describe, {"--json", "x.json"}), {"--json", "'x.json'"});
  expect_refused(with(tiny_describe, {"--json", "--program"}), {"--json", "--program"});
  expect_refused({"capacity", "--model", "llama-tiny", "--json=x.json"}, {"--json", "'x.json'"});
}

TEST(CliRefusals, AResultNeedsAPlace) {
  expect_refused(with(tiny_sim, {"--json", ""}), {"--json: found ''", "- for stdout"});
  expect_refused(with(tiny_sim, {"--json="}), {"--json"});
}

TEST(CliRefusals, WhatCannotBePrintedIsNoSuccess) {
  const Words commands[] = {tiny_sim,
                            tiny_describe,
                            with(tiny_sim, {"--json", "-"}),
                            with(tiny_describe, {"--program"}),
                            {"list", "models"},
                            {"--help"}};
  for (const Words& arguments : commands) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const Finished result = spillway_cli_full_disk(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("stdout: cannot be written"));
  }
}

TEST(CliRefusals, SizesHaveAnUpperLimit) {
  for (const char* devices : {"1000001", "9223372036854775807", "9223372036854775808"})
    expect_refused(with(tiny_sim, {"--devices", devices}),
                   {"--devices", devices, "at most 1000000"});
  for (const char* layers : {"100001", "9223372036854775807"})
    expect_refused(with(tiny_sim, {"--layers", layers}), {"--layers", layers, "at most 100000"});
  for (const char* option : {"--seed", "--micro-batch"})
    expect_refused(with(tiny_run, {option, "9223372036854775808"}),
                   {option, "at most 9223372036854775807"});
}

TEST(CliRefusals, AnOptionGivenTwiceIsSaidToBe) {
  expect_refused(with(tiny_run, {"--seq", "8", "--seq", "16"}), {"--seq: given twice ('8', '16')"});
  const Finished missing = spillway_cli(with(tiny_run, {"--seq"}));
  EXPECT_THAT(missing.err, HasSubstr("found no value"));
  EXPECT_THAT(missing.err, Not(HasSubstr("given")));
}

TEST(CliRefusals, WhatIsExpectedIsSaidByItsOption) {
  expect_refused(with(tiny_run, {"--slow-copy", "0.5"}),
                 {"--slow-copy: found '0.5', expected a number of at least 1"});
  expect_refused(with(tiny_run, {"--link", "abc"}), {"--link", "'abc'", "match:MACHINE[/K]"});
}

}  // namespace
}  // namespace spillway
