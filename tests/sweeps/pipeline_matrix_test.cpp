// Every policy, schedule and rotation of a real Llama goes the whole way: shard, policy, pipeline,
// scheduler, plan, race check; and means what the Llama means.
#include <set>

#include <gmock/gmock.h>

#include "harness/plan.h"
#include "harness/race.h"
#include "offload/policy.h"
#include "tests/support/interpreter.h"
#include "tests/sweeps/support_schedules.h"
#include "workloads/shard.h"
#include "workloads/workload.h"

namespace spillway {
namespace {

std::vector<std::string> policies() {
  std::vector<std::string> names;
  for (const PolicyPreset& preset : policy_presets())
    names.push_back(preset.name);
  for (const char* by_hand :
       {"context=offload", "attention_out=device", "decoder_layer_input=offload",
        "decoder_layer_input=offload,query_proj=offload,key_proj=offload,value_proj=offload,"
        "context=device",
        "mlpwi_0=offload,mlpwi_1=device,out_proj=offload"}) {
    names.push_back(by_hand);
  }
  return names;
}

// Rotation options that differ in something.
std::vector<PipelineOptions> rotations(int64_t devices) {
  std::vector<PipelineOptions> all;
  for (bool copies : {false, true}) {
    for (bool collectives : {false, true}) {
      for (bool by_copy : {false, true}) {
        if ((by_copy && !copies) || (collectives && devices == 1)) continue;
        all.push_back({copies, collectives, by_copy});
      }
    }
    // llama-tiny has four layers: some steady part is left at a depth of 2, none at 5.
    if (!copies) continue;
    const bool collectives = devices > 1;
    all.push_back({.host_copies = true, .collectives = collectives, .depth = 2});
    all.push_back({.host_copies = true, .collectives = collectives, .depth = 5});
    all.push_back({.host_copies = true, .rotation_copies = true, .unroll = 2});
    all.push_back({.host_copies = true, .collectives = collectives, .depth = 2, .unroll = 2});
  }
  return all;
}

Program llama(int64_t devices) {
  ModelConfig config = load_model("llama-tiny");
  WorkloadOptions options;
  options.micro_batch = 1;
  options.seq = 8;
  return shard(build_program(config, options), devices);
}

void expect_sound(const Program& built, const ScheduleVariant& variant,
                  const std::map<std::string, std::vector<uint64_t>>& meaning) {
  SCOPED_TRACE(label(variant));
  const Schedule schedule = schedule_of(built, variant);
  const Plan plan = plan_memory(schedule);
  const std::optional<Race> race = find_race(schedule, plan);
  EXPECT_FALSE(race.has_value()) << race->message;
  for (auto effect : {Interpreter::Effect::at_start, Interpreter::Effect::at_done}) {
    Interpreter run(schedule.program);
    run.step(schedule, effect);
    EXPECT_EQ(run.persistent(), meaning);
  }
}

void expect_all_sound(int64_t devices) {
  const Program built = llama(devices);
  Interpreter meaning(built, Stage::built);
  meaning.step();
  for (const std::string& policy : policies()) {
    for (const PipelineOptions& rotation : rotations(devices)) {
      for (bool lhs : {false, true}) {
        expect_sound(built, {policy, devices, lhs, rotation}, meaning.persistent());
      }
    }
  }
}

TEST(PipelineMatrix, OneDevice) { expect_all_sound(1); }
TEST(PipelineMatrix, EightDevices) { expect_all_sound(8); }

// llama-tiny has four layers; a tail of three leaves a loop of one.
TEST(PipelineMatrix, ResidentTails) {
  for (const int64_t devices : {1, 8}) {
    const Program built = llama(devices);
    Interpreter meaning(built, Stage::built);
    meaning.step();
    for (const char* policy :
         {"minimal_offloaded", "decoder_layer_input=offload,context=offload"}) {
      for (const PipelineOptions& rotation : rotations(devices)) {
        for (const int64_t tail : {1, 2, 3, 4}) {
          for (const bool lhs : {false, true})
            expect_sound(built, {policy, devices, lhs, rotation, CollectivesWithoutLhs::post, tail},
                         meaning.persistent());
        }
      }
    }
  }
}

// Two stacks, two dense layers and three of experts: the tail cuts the last, ends between them,
// cuts the first.
TEST(PipelineMatrix, ResidentTailsOverTwoStacks) {
  ModelConfig config = load_model("deepseek-tiny");
  config.dense_layers = 2;
  config.moe_layers = 3;
  config.layers = 5;
  WorkloadOptions options;
  options.micro_batch = 1;
  options.seq = 8;
  const Program single = build_program(config, options);
  for (const int64_t devices : {1, 8}) {
    const Program built = shard(single, devices, {.ranks = devices > 1 ? 2 : 1});
    Interpreter meaning(built, Stage::built);
    meaning.step();
    for (const char* policy : {"deepseek_v3_offload", "decoder_layer_input=offload"}) {
      for (const int64_t tail : {1, 2, 3, 4, 5}) {
        for (const bool lhs : {false, true}) {
          expect_sound(built, {policy, devices, lhs, {}, CollectivesWithoutLhs::post, tail},
                       meaning.persistent());
          expect_sound(
              built,
              {policy, devices, lhs, {true, devices > 1, true}, CollectivesWithoutLhs::post, tail},
              meaning.persistent());
          expect_sound(
              built,
              {policy, devices, lhs, {true, false, false, 2, 2}, CollectivesWithoutLhs::post, tail},
              meaning.persistent());
        }
      }
    }
  }
}

// Whatever copies wait for, the step means the same.
TEST(PipelineMatrix, Streams) {
  for (const int64_t devices : {1, 8}) {
    const Program built = llama(devices);
    Interpreter meaning(built, Stage::built);
    meaning.step();
    for (const char* policy :
         {"qkv_proj_offloaded", "minimal_offloaded", "decoder_layer_input=offload"})
      for (const PipelineOptions& rotation : rotations(devices))
        for (const bool lhs : {false, true})
          for (const Streams streams : {Streams::precise, Streams::xla})
            for (const int64_t tail : {0, 2})
              expect_sound(
                  built,
                  {policy, devices, lhs, rotation, CollectivesWithoutLhs::post, tail, streams},
                  meaning.persistent());
  }
}

TEST(PipelineMatrix, AdjacentCollectives) {
  const Program built = llama(8);
  Interpreter meaning(built, Stage::built);
  meaning.step();
  for (const PipelineOptions& rotation : rotations(8)) {
    expect_sound(built, {"qkv_proj_offloaded", 8, false, rotation, CollectivesWithoutLhs::adjacent},
                 meaning.persistent());
  }
}

// attention_out alone: the kernel runs again for its log-sum-exp, its output is read from the
// stack.
TEST(PipelineMatrix, AttentionOutWithoutContextRecomputesTheLogSumExp) {
  const Program program = apply_policy(llama(1), parse_policy("attention_out=device")).program;
  for (const Segment& segment : program.segments) {
    if (segment.pass != Pass::backward || segment.trips == 1) continue;
    int kernels = 0;
    for (const Op& op : segment.ops) {
      kernels += op.kind == OpKind::attention ? 1 : 0;
      if (op.kind != OpKind::attention_backward) continue;
      EXPECT_EQ(program.at(op.inputs[3].tensor).role, Role::kept);
      EXPECT_EQ(program.at(op.inputs[4].tensor).extent, Extent::local);
    }
    EXPECT_EQ(kernels, 1);
  }
}

// One weight is gathered once a layer in each direction, whatever is recomputed with it.
TEST(PipelineMatrix, AWeightIsGatheredOnceABody) {
  for (const char* policy : {"full", "minimal", "qkv_proj_offloaded"}) {
    const Program program = apply_policy(llama(8), parse_policy(policy)).program;
    for (const Segment& segment : program.segments) {
      if (segment.trips == 1) continue;
      std::set<std::pair<TensorId, int64_t>> shards;
      for (const Op& op : segment.ops) {
        if (op.kind != OpKind::slice_cast) continue;
        EXPECT_TRUE(shards.emplace(op.inputs[0].tensor, op.inputs[0].index.offset).second)
            << policy << ": " << program.at(op.inputs[0].tensor).name << " twice in "
            << segment.name;
      }
      EXPECT_EQ(shards.size(), 9u) << segment.name;  // two norms, seven matrices
    }
  }
}

}  // namespace
}  // namespace spillway
