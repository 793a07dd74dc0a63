// Capacity: the search, what it says about real plans, and the subcommand.
#include "sweeps/capacity.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;

// What is asked, and of it what fits.
struct Asked {
  std::set<int64_t> numbers;
  int64_t largest = 0;
};

Asked ask(const std::function<bool(int64_t)>& fits, int64_t most) {
  Asked asked;
  asked.largest = largest_that_fits(
      [&](int64_t n) {
        asked.numbers.insert(n);
        return fits(n);
      },
      most);
  EXPECT_THAT(asked.numbers, testing::Each(AllOf(Ge(1), Le(most))));
  return asked;
}

TEST(CapacitySearch, FindsEveryThreshold) {
  for (const int64_t most : {1, 2, 7, 64, 100})
    for (int64_t threshold = 0; threshold <= most + 3; ++threshold) {
      SCOPED_TRACE(testing::Message() << threshold << " of " << most);
      const Asked asked = ask([&](int64_t n) { return n <= threshold; }, most);
      EXPECT_EQ(asked.largest, std::min(threshold, most));
      EXPECT_EQ(asked.numbers.count(asked.largest + 1), asked.largest < most ? 1U : 0U)
          << "the next one is known not to fit";
    }
}

TEST(CapacitySearch, AHoleIsNoEnd) {
  const auto fits_but = [](const std::set<int64_t>& holes, int64_t threshold) {
    return [=](int64_t n) { return n <= threshold && holes.count(n) == 0; };
  };
  EXPECT_EQ(ask(fits_but({6}, 7), 1000).largest, 7) << "a neighbour of the end";
  EXPECT_EQ(ask(fits_but({8}, 23), 1000).largest, 23) << "a power of two";
  EXPECT_EQ(ask(fits_but({1}, 5), 1000).largest, 5) << "the first";
  EXPECT_EQ(ask(fits_but({}, 0), 1000).largest, 0);
}

Point tiny(const std::string& policy) {
  Point point;
  point.model = "llama-tiny";
  point.executor = ExecutorKind::sim;
  point.policy = policy;
  point.devices = 8;
  return point;
}

// Every micro batch that could be the answer, planned and judged as `run` does.
TEST(Capacity, AgreesWithPlanningEveryMicroBatch) {
  for (const char* policy : {"full", "minimal", "minimal_offloaded"}) {
    SCOPED_TRACE(policy);
    Point point = tiny(policy);
    point.hbm_bytes = int64_t{6} << 20;
    point.host_bytes = int64_t{2} << 20;
    std::set<int64_t> fitting = {0};
    for (int64_t n = 1; n <= 40; ++n) {
      point.micro_batch = n;
      if (prepare(point, {}).status == Status::ok) fitting.insert(n);
    }
    const CapacityAnswer answer = find_capacity(point);
    EXPECT_EQ(answer.largest, *fitting.rbegin());
    EXPECT_LT(answer.largest, 40);
    for (const Trial& trial : answer.trials)
      EXPECT_EQ(trial.fits, fitting.count(trial.micro_batch) == 1) << trial.micro_batch;
  }
}

TEST(Capacity, ThePeakIsTheSumOfItsParts) {
  for (const char* policy : {"full", "minimal", "qkv_proj_offloaded"}) {
    const CapacityAnswer answer = find_capacity(tiny(policy));
    for (const Trial& trial : answer.trials) {
      EXPECT_EQ(std::accumulate(trial.peak_by_role.begin(), trial.peak_by_role.end(), trial.holes),
                trial.device_bytes);
      EXPECT_EQ(trial.largest_device.size(), 5U);
    }
  }
}

// 405B at sequence 8192: Q, K and V of one sequence are (16384 + 2 * 1024) * 8192 * 2 bytes a
// layer, 126 layers: 38,050,725,888 bytes. Of 240e9 bytes of host memory that fits 6 times.
TEST(Capacity, TheHostStopsWhatTheDeviceDoesNot) {
  Point point;
  point.model = "llama3.1-405b";
  point.policy = "qkv_proj_offloaded";
  point.devices = 128;
  point.seq = 8192;
  point.hbm_bytes = int64_t{8} << 40;
  const CapacityAnswer answer = find_capacity(point);
  EXPECT_EQ(answer.capacity.host, 240000000000);
  EXPECT_EQ(answer.largest, 6);
  const Trial* const next = answer.at(7);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->host_bytes, 7 * 38050725888);
  EXPECT_LE(next->device_bytes, answer.capacity.device);
  ASSERT_EQ(next->largest_host.size(), 3U);
  EXPECT_EQ(next->largest_host[0].bytes, int64_t{7} * 8192 * 16384 * 2 * 126);
  EXPECT_EQ(next->largest_host[1].bytes, int64_t{7} * 8192 * 1024 * 2 * 126);
}

// llama-tiny: Q 64 wide, K and V 32 wide, 2 bytes, 4 layers; 64 tokens a sequence.
TEST(Capacity, WhatTheCopiesNeed) {
  const HostNeed need = host_need(tiny("qkv_proj_offloaded"), 3);
  for (const CopyNeed& copies : {need.d2h, need.h2d}) {
    EXPECT_EQ(copies.bytes, 3 * 64 * (64 + 32 + 32) * 2 * 4);
    EXPECT_DOUBLE_EQ(copies.step_bytes_per_second,
                     static_cast<double>(copies.bytes) / need.step_seconds_if_hidden);
    EXPECT_GT(copies.busiest_bytes_per_second, copies.step_bytes_per_second)
        << "a direction is busy in one pass only";
  }
  EXPECT_GE(need.step_seconds, need.step_seconds_if_hidden);
  EXPECT_DOUBLE_EQ(need.tokens_per_second * need.step_seconds, 3 * 64);
  const HostNeed none = host_need(tiny("full"), 3);
  EXPECT_EQ(none.d2h.bytes, 0);
  EXPECT_EQ(none.step_seconds, none.step_seconds_if_hidden);
}

TEST(Capacity, PresetsThatDecideTheSameAreAskedOnce) {
  std::set<std::string> asked, named;
  for (const AskedPolicy& policy : distinct_presets(tiny("full"))) {
    asked.insert(policy.name);
    named.insert(policy.name);
    named.insert(policy.same.begin(), policy.same.end());
    if (policy.name == "minimal_with_context") {
      EXPECT_THAT(policy.same, testing::Contains("minimal_flash"));
    }
  }
  EXPECT_EQ(asked.count("minimal_flash"), 0U);
  EXPECT_EQ(named.size(), policy_presets().size());
}

const Words capacity_of_tiny = {"capacity", "--model", "llama-tiny", "--hbm",
                                "12MiB",    "--host",  "2MiB"};

TEST(CliCapacity, OneObjectForEveryPolicy) {
  const Finished run = spillway_cli(
      with(capacity_of_tiny, {"--policy", "full", "--policy", "minimal_offloaded", "--json"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, IsEmpty());
  const json result = run.json();
  EXPECT_EQ(result["machine"], "gb200-nvl72");
  EXPECT_EQ(result["link"]["devices_per_host"], 2);
  EXPECT_EQ(result["link"]["host_d2h_bytes_per_second"], 2 * 183e9);
  ASSERT_EQ(result["policies"].size(), 2U);
  for (const json& row : result["policies"]) {
    EXPECT_EQ(row["device_capacity_bytes"], 12 << 20);
    EXPECT_EQ(row["host_capacity_bytes"], 2 << 20);
    const int64_t largest = row["largest_micro_batch"];
    EXPECT_EQ(row["largest"]["micro_batch"], largest);
    EXPECT_EQ(row["next"]["micro_batch"], largest + 1);
    EXPECT_FALSE(row["next"]["by"].empty());
    EXPECT_EQ(row["next"]["largest_at_peak"].size(), 5U);
    EXPECT_TRUE(row["at_default_state_bytes"].is_null());
    EXPECT_EQ(row["simulated"]["h2d"]["host_bytes_per_second"],
              2 * row["simulated"]["h2d"]["bytes_per_second"].get<double>());
  }
  EXPECT_EQ(result["policies"][0]["policy"], "full");
  EXPECT_THAT(result["policies"][1]["next"]["by"], testing::Contains("host"));
}

// Two of 16 bytes of state a parameter less: more fits.
TEST(CliCapacity, FewerBytesOfStateStandBesideTheDefault) {
  const json row = spillway_cli(with(capacity_of_tiny,
                                     {"--state-bytes", "2,2,2,2", "--policy", "full", "--json"}))
                       .json()["policies"][0];
  EXPECT_GT(row["largest_micro_batch"], row["at_default_state_bytes"]["largest_micro_batch"]);
}

TEST(CliCapacity, ForPeopleWithEveryPreset) {
  const Finished run = spillway_cli(capacity_of_tiny);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const PolicyPreset& preset : policy_presets())
    EXPECT_THAT(run.out, HasSubstr(preset.name));
  for (const char* word : {"largest", "next", "too much", "its peak", "parameters", "tried"})
    EXPECT_THAT(run.out, HasSubstr(word));
}

TEST(CliCapacity, NothingFits) {
  const Words small = {"capacity", "--model", "llama-tiny", "--hbm", "4096", "--policy", "full"};
  EXPECT_THAT(spillway_cli(small).out, HasSubstr("largest none"));
  const json row = spillway_cli(with(small, {"--json"})).json()["policies"][0];
  EXPECT_EQ(row["largest_micro_batch"], 0);
  EXPECT_TRUE(row["largest"].is_null() && row["simulated"].is_null());
  EXPECT_EQ(row["next"]["micro_batch"], 1);
}

TEST(CliCapacity, BadInputIsRefused) {
  const std::vector<std::pair<Words, Words>> cases = {
      {{"--policy", "fulll"}, {"fulll", "minimal"}},
      {{"--policy", "full", "--policy", "mla_q=offload"}, {"mla_q", "query_proj"}},
      {{"--micro-batch", "2"}, {"--micro-batch"}},
      {{"--executor", "cpu"}, {"--executor"}},
      {{"--steps", "2"}, {"--steps"}},
      {{"--seq", "0"}, {"--seq", "at least 1"}},
      {{"--machine", "gb300"}, {"gb300", "gb200-nvl72"}},
      {{"--machine", "cpu-2core"}, {"cpu-2core", "hbm_bytes"}},
      {{"--moe", "capacity"}, {"--moe", "dense"}}};
  for (const auto& [options, mentions] : cases) {
    SCOPED_TRACE(testing::PrintToString(options));
    const Finished run = spillway_cli(with({"capacity", "--model", "llama-tiny"}, options));
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.out, IsEmpty());
    for (const std::string& word : mentions)
      EXPECT_THAT(run.err, HasSubstr(word));
  }
  EXPECT_EQ(spillway_cli({"capacity"}).exit_code, 2);
}

}  // namespace
}  // namespace spillway
