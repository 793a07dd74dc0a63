// Programs with latent attention, experts and two stacks: their shape, what they count, and that
// their state is that of the published models.
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "harness/error.h"
#include "harness/ops.h"
#include "harness/verify.h"
#include "tests/workloads/support.h"
#include "workloads/accounting.h"
#include "workloads/workload.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double tera = 1e12;

// No size divides another one; one dense and two MoE layers, a shared expert, groups.
ModelConfig odd_moe_config() {
  ModelConfig config;
  config.name = config.file = "odd";
  config.hidden_size = 30;
  config.intermediate_size = 77;
  config.vocab_size = 53;
  config.layers = 3;
  config.dense_layers = 1;
  config.moe_layers = 2;
  config.heads = config.kv_heads = 3;
  config.head_dim = 11;
  config.rms_norm_eps = 1e-6;
  config.mla = MlaConfig{};
  config.mla->q_lora_rank = 13;
  config.mla->kv_lora_rank = 9;
  config.mla->qk_nope_head_dim = 7;
  config.mla->qk_rope_head_dim = 4;
  config.mla->v_head_dim = 5;
  config.moe = MoeConfig{};
  config.moe->experts = 6;
  config.moe->top_k = 3;
  config.moe->groups = 3;
  config.moe->top_groups = 2;
  config.moe->expert_ffn = 19;
  config.moe->shared_experts = 1;
  config.moe->shared_ffn = 19;
  config.moe->score = MoeConfig::Score::sigmoid;
  config.moe->group_score = MoeConfig::GroupScore::top2_sum;
  config.moe->correction_bias = true;
  return config;
}

WorkloadOptions capacity_point(int64_t batch, int64_t seq, Precision precision = Precision::bf16) {
  WorkloadOptions options = point(batch, seq, precision);
  options.moe.capacity_path = true;
  return options;
}

// Every combination of parts, none of them with sizes that fit well.
std::vector<ModelConfig> odd_relatives() {
  ModelConfig direct = odd_moe_config();
  direct.mla->q_lora_rank.reset();
  ModelConfig all_moe = odd_moe_config();
  all_moe.dense_layers = 0;
  all_moe.moe_layers = 3;
  ModelConfig no_shared = odd_moe_config();
  no_shared.moe->shared_experts = no_shared.moe->shared_ffn = 0;
  no_shared.moe->correction_bias = false;
  no_shared.moe->score = MoeConfig::Score::softmax;
  ModelConfig ordinary = odd_moe_config();  // as Qwen3-MoE, with the biases of Qwen2
  ordinary.mla.reset();
  ordinary.head_dim = 14;
  ordinary.kv_heads = 1;
  ordinary.qkv_bias = ordinary.qk_norm = true;
  ModelConfig dense = ordinary;
  dense.moe.reset();
  dense.dense_layers = 3;
  dense.moe_layers = 0;
  ModelConfig dense_latent = odd_moe_config();
  dense_latent.moe.reset();
  dense_latent.dense_layers = 3;
  dense_latent.moe_layers = 0;
  return {odd_moe_config(), direct, all_moe, no_shared, ordinary, dense, dense_latent};
}

std::vector<std::string> segment_names(const Program& program) {
  std::vector<std::string> names;
  for (const Segment& segment : program.segments)
    names.push_back(segment.name);
  return names;
}

TEST(DeepSeek, EveryCombinationIsWellFormed) {
  for (const ModelConfig& config : odd_relatives())
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp8})
      for (const bool capacity : {false, true}) {
        if (capacity && !config.moe) continue;
        WorkloadOptions options =
            capacity ? capacity_point(3, 37, precision) : point(3, 37, precision);
        EXPECT_NO_THROW(verify(build_program(config, options), Stage::built));
        options = capacity ? capacity_point(1, 1, precision) : point(1, 1, precision);
        options.state_bytes = {2, 2, 4, 2};
        EXPECT_NO_THROW(verify(build_program(config, options), Stage::built));  // one token
      }
}

TEST(DeepSeek, ShippedModelsAreWellFormed) {
  for (const std::string& name : model_names()) {
    const ModelConfig config = load_model(name);
    EXPECT_NO_THROW(verify(build_program(config, point(2, 64)), Stage::built)) << name;
    if (!config.moe) continue;
    EXPECT_NO_THROW(verify(build_program(config, capacity_point(2, 64)), Stage::built)) << name;
  }
}

// Layers are numbered through: the stream's ring passes from one stack to the next.
TEST(DeepSeek, TwoStacksFollowEachOther) {
  const Program program = build_program(load_model("deepseek-v3"), point(1, 64));
  EXPECT_THAT(
      segment_names(program),
      ElementsAre("embed", "dense_layers.forward", "moe_layers.forward", "head",
                  "moe_layers.backward", "dense_layers.backward", "embed.backward", "optimizer"));
  const Segment& dense = segment_of(program, "dense_layers.forward");
  const Segment& moe = segment_of(program, "moe_layers.forward");
  EXPECT_EQ(dense.trips, 3);
  EXPECT_EQ(moe.trips, 58);
  EXPECT_EQ(dense.ops.back().outputs[0].index, Index::at(1, 1));
  EXPECT_EQ(moe.ops.front().inputs[0].index, Index::at(1, 3));
  EXPECT_EQ(moe.ops.back().outputs[0].index, Index::at(1, 4));
  EXPECT_EQ(segment_of(program, "head").ops.front().inputs[0].index, Index::at(0, 61));
  EXPECT_EQ(segment_of(program, "moe_layers.backward").ops.back().inputs[0].index,
            Index::at(-1, 60));
}

TEST(DeepSeek, LayersOfOneKindAreOneStack) {
  EXPECT_THAT(segment_names(build_program(load_model("mixtral-8x7b"), point(1, 64))),
              ElementsAre("embed", "layers.forward", "head", "layers.backward", "embed.backward",
                          "optimizer"));
}

// Published: 8,206.742 TFLOP (published.md 4). Without recomputation a dropless program executes
// exactly what is counted.
TEST(DeepSeek, ExecutesTheCountedFlops) {
  const ExecutedFlops v3 = executed_flops(build_program(load_model("deepseek-v3"), point(8, 4096)));
  EXPECT_NEAR(v3.matmul / tera, 8206.742, 0.0005);
  for (const char* name : {"deepseek-v3", "deepseek-v3-proxy", "deepseek-v2-lite", "mixtral-8x7b",
                           "qwen2.5-7b", "qwen3-30b-a3b", "kimi-k2"}) {
    const ModelConfig config = load_model(name);
    const ModelAccount counted = account(config, 2, 1024);
    const ExecutedFlops executed = executed_flops(build_program(config, point(2, 1024)));
    EXPECT_DOUBLE_EQ(executed.matmul, static_cast<double>(counted.flops_step_causal)) << name;
  }
}

// One product with a mask is 2 T (S k) D = 15.39 TFLOP at factor 1, five of them a layer before
// anything is recomputed (feasibility.md 1); the experts' rows are as many as without masks.
TEST(DeepSeek, MasksCostDenseProducts) {
  const ModelConfig config = load_model("deepseek-v3");
  const double dropless = executed_flops(build_program(config, point(8, 4096))).matmul;
  const double masked = executed_flops(build_program(config, capacity_point(8, 4096))).matmul;
  EXPECT_NEAR((masked - dropless) / tera, 5 * 58 * 15.393, 0.5);
  WorkloadOptions wide = capacity_point(8, 4096);
  wide.moe.capacity_factor = 1.25;
  const double wider = executed_flops(build_program(config, wide)).matmul;
  EXPECT_NEAR((wider - masked) / tera, 0.25 * (5 * 58 * 15.393 + 4017.615), 0.5);
}

// MiB a layer at micro batch 8, sequence 4096: mechanisms.md 1.5. Generic and moe_ names share a
// tensor; w1 of the dropless path has its own name only (1.3).
TEST(DeepSeek, NamesWhatMaxTextNames) {
  const std::multimap<std::string, int64_t> attention = {
      {"query_wa_proj", 96}, {"mla_q", 96},      {"kv_wa_proj", 36},     {"mla_kv", 32},
      {"query_proj", 1536},  {"key_proj", 1536}, {"value_proj", 1024},   {"context", 1024},
      {"context", 16},       {"out_proj", 448},  {"attention_out", 1024}};
  std::multimap<std::string, int64_t> expected = {{"decoder_layer_input", 448},
                                                  {"mlpwi_0", 1152},
                                                  {"mlpwi_1", 1152},
                                                  {"mlpwo", 448},
                                                  // shared and routed experts
                                                  {"mlpwi_0", 128},
                                                  {"mlpwi_1", 128},
                                                  {"mlpwo", 448},
                                                  {"mlpwi_0", 1024},
                                                  {"mlpwo", 3584},
                                                  {"moe_mlpwi_0", 1024},
                                                  {"moe_mlpwi_1", 1024},
                                                  {"moe_mlpwo", 3584}};
  expected.insert(attention.begin(), attention.end());
  expected.insert(attention.begin(), attention.end());  // of both stacks
  for (const bool capacity : {false, true}) {
    if (capacity) expected.emplace("mlpwi_1", 1024);
    std::multimap<std::string, int64_t> found;
    const Program program = build_program(load_model("deepseek-v3"),
                                          capacity ? capacity_point(8, 4096) : point(8, 4096));
    for (const Tensor& tensor : program.tensors)
      for (const std::string& name : tensor.activations)
        found.emplace(name, tensor.slice_bytes() >> 20);
    std::multiset<std::pair<std::string, int64_t>> a(found.begin(), found.end()),
        b(expected.begin(), expected.end());
    EXPECT_EQ(a, b);
  }
}

// Published totals. The correction bias (V3: 256 a layer, fp32) is a weight without state.
TEST(DeepSeek, StateHoldsEveryParameterOnce) {
  const std::map<std::string, std::pair<int64_t, int64_t>> published = {
      {"deepseek-v3", {671026419200, 58 * 256}},
      {"deepseek-v2-lite", {15706484224, 0}},
      {"mixtral-8x7b", {46702792704, 0}},
      {"qwen2.5-7b", {7615616512, 0}}};
  for (const auto& [name, counts] : published) {
    const auto [total, without_state] = counts;
    std::map<Role, int64_t> bytes;
    for (const Tensor& tensor : build_program(load_model(name), point(1, 64)).tensors)
      if (tensor.extent == Extent::persistent) bytes[tensor.role] += tensor.bytes();
    const int64_t trained = total - without_state;
    EXPECT_EQ(bytes[Role::parameter], 6 * trained + 4 * without_state) << name;
    EXPECT_EQ(bytes[Role::optimizer], 8 * trained) << name;
    EXPECT_EQ(bytes[Role::gradient], 4 * trained) << name;
  }
}

TEST(DeepSeek, EveryGradientSliceIsWrittenOnceAndUsedByTheOptimizer) {
  for (const ModelConfig& config : odd_relatives())
    EXPECT_GT(gradient_slices_written_once(build_program(config, point(2, 9))), 0);
}

TEST(DeepSeek, WhatMakesNoSenseIsRefused) {
  ModelConfig alternating = odd_moe_config();
  alternating.interleaved_layers = true;
  EXPECT_THROW(build_program(alternating, point(1, 8)), InputError);
  WorkloadOptions options = capacity_point(1, 8);
  options.moe.capacity_factor = 0;
  EXPECT_THROW(build_program(odd_moe_config(), options), InputError);
  EXPECT_THROW(build_program(load_model("llama-tiny"), capacity_point(1, 8)), InputError);
}

}  // namespace
}  // namespace spillway
