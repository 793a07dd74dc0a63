// Real schedules of a tiny Llama under the race check: no wait is superfluous in any variant, brute
// force agrees on damaged ones, and plans at full size are tight.
#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "harness/plan.h"
#include "harness/race.h"
#include "tests/support/brute_force.h"
#include "tests/sweeps/support_schedules.h"
#include "workloads/shard.h"
#include "workloads/workload.h"

namespace spillway {
namespace {

std::vector<ScheduleVariant> race_variants() {
  std::vector<ScheduleVariant> list;
  for (const char* policy : {"full", "minimal", "qkv_proj_offloaded", "minimal_offloaded",
                             "query_proj=device,key_proj=device,value_proj=device",
                             "decoder_layer_input=offload,context=offload"}) {
    for (const int64_t devices : {1, 8}) {
      for (const bool lhs : {false, true}) {
        list.push_back({policy, devices, lhs, {}});
        list.push_back({policy, devices, lhs, {true, false, false}});
        list.push_back({policy, devices, lhs, {true, devices > 1, true}});
        if (devices > 1) list.push_back({policy, devices, lhs, {false, true, false}});
        list.push_back({policy, devices, lhs, {true, devices > 1, false, 2, 1}});
        list.push_back({policy, devices, lhs, {true, devices > 1, true, 1, 2}});
        list.push_back({policy, devices, lhs, {true, false, false, 3, 2}});
        for (const PipelineOptions& rotation :
             {PipelineOptions{}, PipelineOptions{true, devices > 1, true}})
          for (const Streams streams : {Streams::position, Streams::precise})
            list.push_back(
                {policy, devices, lhs, rotation, CollectivesWithoutLhs::post, 2, streams});
        list.push_back(
            {policy, devices, lhs, {}, CollectivesWithoutLhs::post, 0, Streams::precise});
      }
    }
  }
  return list;
}

Schedule schedule_of_llama(const ModelConfig& config, int64_t micro_batch, int64_t seq,
                           const ScheduleVariant& variant) {
  WorkloadOptions options;
  options.micro_batch = micro_batch;
  options.seq = seq;
  return schedule_of(shard(build_program(config, options), variant.devices), variant);
}

Schedule tiny_schedule(const ScheduleVariant& variant, int64_t layers) {
  ModelConfig config = load_model("llama-tiny");
  set_layers(config, layers);
  return schedule_of_llama(config, 1, 8, variant);
}

// One wait list after the other; stops when `visit` returns true.
template <class Visit>
void for_each_wait_list(Schedule& schedule, const Visit& visit) {
  for (SegmentSchedule& segment : schedule.segments) {
    for (auto& lane : segment.lanes) {
      for (LaneStep& step : lane) {
        if (!step.waits.empty() && visit(step.waits)) return;
      }
    }
  }
}

size_t count_waits(Schedule schedule) {
  size_t count = 0;
  for_each_wait_list(schedule, [&](std::vector<Wait>& waits) {
    count += waits.size();
    return false;
  });
  return count;
}

Schedule without_wait(Schedule schedule, size_t number) {
  for_each_wait_list(schedule, [&](std::vector<Wait>& waits) {
    if (number >= waits.size()) {
      number -= waits.size();
      return false;
    }
    waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(number));
    return true;
  });
  return schedule;
}

// Returns how many waits were taken out, one at a time.
size_t expect_every_wait_is_needed(const Schedule& schedule, const ScheduleVariant& variant) {
  const Plan plan = plan_memory(schedule);
  const Schedule needed = drop_implied_waits(schedule, plan);
  const std::optional<Race> race = find_race(needed, plan);
  EXPECT_FALSE(race) << label(variant) << ": " << race->message;
  const size_t waits = count_waits(needed);
  EXPECT_LE(waits, count_waits(schedule));
  for (size_t k = 0; k < waits; ++k)
    EXPECT_TRUE(find_race(without_wait(needed, k), plan)) << label(variant) << ", wait " << k;
  return waits;
}

TEST(RaceVariants, AnySingleWaitLessIsRefused) {
  size_t tried = 0;
  for (const ScheduleVariant& variant : race_variants())
    tried += expect_every_wait_is_needed(tiny_schedule(variant, 5), variant);
  EXPECT_GT(tried, 500u);
}

// Two stacks, experts over two of eight devices: dispatch and combine on the collective lane.
TEST(RaceVariants, AnySingleWaitLessIsRefusedWithExperts) {
  ModelConfig config = load_model("deepseek-tiny");
  set_layers(config, 4);
  WorkloadOptions options;
  options.micro_batch = 1;
  options.seq = 8;
  const Program built = build_program(config, options);
  size_t tried = 0;
  for (const int64_t devices : {1, 8}) {
    const Program sharded = shard(built, devices, {.ranks = devices > 1 ? 2 : 1});
    for (const bool lhs : {false, true}) {
      for (const PipelineOptions& rotation :
           {PipelineOptions{}, PipelineOptions{true, devices > 1, true},
            PipelineOptions{true, devices > 1, false, 2, 2}}) {
        const ScheduleVariant variant{"deepseek_v3_offload", devices, lhs, rotation};
        tried += expect_every_wait_is_needed(schedule_of(sharded, variant), variant);
      }
    }
  }
  EXPECT_GT(tried, 100u);
}

// Some of the variants in full, five layers unrolled: damaged like the hand-built programs.
TEST(RaceVariants, BruteForceAgrees) {
  std::mt19937 random(7);
  const std::vector<ScheduleVariant> all = race_variants();
  for (size_t v = 0; v < all.size(); v += 7) {
    const Schedule schedule = tiny_schedule(all[v], 5);
    const Plan plan = plan_memory(schedule);
    const Schedule needed = drop_implied_waits(schedule, plan);
    EXPECT_EQ(brute_force_race(needed, plan), "") << label(all[v]);
    const size_t waits = count_waits(needed);
    if (waits > 0) {
      const size_t k = random() % waits;
      EXPECT_NE(brute_force_race(without_wait(needed, k), plan), "") << label(all[v]) << k;
    }
    Plan shifted = plan;
    const size_t tensor = random() % plan.offset.size();
    if (plan.offset[tensor] >= 0) shifted.offset[tensor] += 64 * (1 + random() % 40);
    EXPECT_EQ(find_race(needed, shifted).has_value(), !brute_force_race(needed, shifted).empty())
        << label(all[v]) << ", " << schedule.program.tensors[tensor].name;
  }
}

// Skipped iterations change no verdict: twelve layers, of which some are not looked at.
TEST(RaceVariants, DeepStacksAreProvenFromAFewIterations) {
  for (const ScheduleVariant& variant : race_variants()) {
    const Schedule schedule = tiny_schedule(variant, 40);
    const Plan plan = plan_memory(schedule);
    const std::optional<Race> race = find_race(schedule, plan);
    EXPECT_FALSE(race) << label(variant) << ": " << race->message;
  }
}

// Above weights, gradients, optimizer state and stacked residuals, the peak is at most 1 % over the
// largest sum of bytes alive at one point.
void expect_tight(const std::string& model, int64_t micro_batch, int64_t seq,
                  const ScheduleVariant& variant) {
  const Schedule schedule = schedule_of_llama(load_model(model), micro_batch, seq, variant);
  const Plan plan = plan_memory(schedule);
  const Program& program = schedule.program;
  int64_t transient_live = 0;
  for (const LivePoint& point : plan.curve) {
    int64_t live = std::accumulate(point.bytes.begin(), point.bytes.end(), int64_t{0});
    live -= point.bytes[static_cast<size_t>(Role::kept)];
    transient_live = std::max(transient_live, live);
  }
  int64_t persistent = 0;
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    const Tensor& tensor = program.tensors[id];
    const bool placed = tensor.space == Space::device && plan.offset[id] >= 0;
    if (placed && tensor.extent == Extent::persistent) persistent += tensor.bytes();
  }
  transient_live -= persistent;
  const int64_t transient_peak = plan.device_bytes - plan.static_bytes;
  EXPECT_LE(static_cast<double>(transient_peak), 1.01 * static_cast<double>(transient_live))
      << model << ", " << label(variant);
  EXPECT_LE(plan.holes, transient_live / 100) << model << ", " << label(variant);
}

TEST(RaceVariants, PlansAtFullSizeAreTight) {
  for (const ScheduleVariant& variant : race_variants()) {
    if (variant.devices == 1)
      expect_tight("llama3.1-405b-proxy", 2, 1024, variant);
    else
      expect_tight("llama3.1-405b", 2, 8192, variant);
  }
}

}  // namespace
}  // namespace spillway
