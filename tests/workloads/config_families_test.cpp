// The key sets of each family as published files have them, and what is refused in them.
#include <fstream>
#include <functional>
#include <map>
#include <tuple>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "tests/workloads/support_config.h"
#include "workloads/config.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// A shipped model's file with members replaced; a member that is discarded is taken out.
const json absent = json(json::value_t::discarded);

json file_of(const std::string& model) {
  const ModelConfig shipped = load_model(model);  // names its file
  return json::parse(
      std::ifstream(std::string(SPILLWAY_SOURCE_DIR) + "/workloads/models/" + shipped.file));
}

ModelConfig parse_changed(const std::string& model, const std::map<std::string, json>& changes) {
  json file = file_of(model);
  for (const auto& [key, value] : changes) {
    if (value.is_discarded())
      file.erase(key);
    else
      file[key] = value;
  }
  return parse_config(file.dump(), "c.json");
}

std::string error_changed(const std::string& model, const std::map<std::string, json>& changes) {
  return error_of([&] { parse_changed(model, changes); });
}

TEST(Families, QwenTwoHasBiasesAndQwenThreeNorms) {
  const ModelConfig two = load_model(case_path("c06_qwen25_7b.json"));
  EXPECT_TRUE(two.qkv_bias);
  EXPECT_FALSE(two.qk_norm);
  EXPECT_EQ(two.head_dim, 128);  // 3584 / 28
  EXPECT_EQ(two.rope, (Rope{.theta = 1000000}));
  const ModelConfig three = load_model("qwen3-8b");
  EXPECT_FALSE(three.qkv_bias);
  EXPECT_TRUE(three.qk_norm);
  EXPECT_EQ(three.head_dim, 128);
  EXPECT_FALSE(three.moe);
}

TEST(Families, MixtralExpertsHaveTheIntermediateSize) {
  const ModelConfig config = load_model(case_path("c08_mixtral_8x7b.json"));
  ASSERT_TRUE(config.moe);
  EXPECT_EQ(config.moe->experts, 8);
  EXPECT_EQ(config.moe->top_k, 2);
  EXPECT_EQ(config.moe->expert_ffn, 14336);
  EXPECT_EQ(config.moe->shared_ffn, 0);
  EXPECT_EQ(config.moe->score, MoeConfig::Score::softmax);
  EXPECT_TRUE(config.moe->normalise);
  EXPECT_EQ(config.dense_layers, 0);
  EXPECT_EQ(config.moe_layers, 32);
}

TEST(Families, DeepSeekThree) {
  const ModelConfig config = load_model(case_path("c09_deepseek_v3.json"));
  ASSERT_TRUE(config.mla);
  EXPECT_EQ(config.mla->q_lora_rank, 1536);
  EXPECT_EQ(config.mla->kv_lora_rank, 512);
  EXPECT_EQ(config.mla->v_head_dim, 128);
  EXPECT_TRUE(config.mla->rope_interleave);
  EXPECT_EQ(config.head_dim, 192);
  ASSERT_TRUE(config.moe);
  const MoeConfig& moe = *config.moe;
  EXPECT_EQ(moe.experts, 256);
  EXPECT_EQ(moe.groups, 8);
  EXPECT_EQ(moe.top_groups, 4);
  EXPECT_EQ(moe.expert_ffn, 2048);
  EXPECT_EQ(moe.shared_ffn, 2048);
  EXPECT_EQ(moe.score, MoeConfig::Score::sigmoid);
  EXPECT_EQ(moe.group_score, MoeConfig::GroupScore::top2_sum);
  EXPECT_TRUE(moe.correction_bias);
  EXPECT_EQ(moe.scale, 2.5);
  EXPECT_EQ(config.dense_layers, 3);
  EXPECT_EQ(config.moe_layers, 58);
  EXPECT_FALSE(config.interleaved_layers);
  EXPECT_EQ(config.mtp_layers, 1);
  EXPECT_EQ(config.rope, (Rope{.kind = RopeKind::yarn,
                               .theta = 10000,
                               .factor = 40,
                               .original_max_position = 4096,
                               .mscale = 1,
                               .mscale_all_dim = 1}));
}

TEST(Families, DeepSeekTwoChoosesBySoftmaxAndLiteProjectsQueriesDirectly) {
  const ModelConfig lite = load_model("deepseek-v2-lite"), full = load_model("deepseek-v2");
  EXPECT_FALSE(lite.mla->q_lora_rank);
  EXPECT_EQ(full.mla->q_lora_rank, 1536);
  EXPECT_EQ(lite.moe->groups, 1);  // greedy: groups play no part
  EXPECT_EQ(full.moe->groups, 8);
  EXPECT_EQ(full.moe->top_groups, 3);
  EXPECT_EQ(full.moe->group_score, MoeConfig::GroupScore::max);
  EXPECT_EQ(full.moe->scale, 16);
  for (const ModelConfig& config : {lite, full}) {
    EXPECT_EQ(config.moe->score, MoeConfig::Score::softmax);
    EXPECT_FALSE(config.moe->normalise);
    EXPECT_FALSE(config.moe->correction_bias);
    EXPECT_EQ(config.moe->shared_ffn, 2 * config.moe->expert_ffn);
    EXPECT_EQ(config.rope.mscale_all_dim, 0.707);
  }
  EXPECT_THAT(error_changed("deepseek-v2", {{"norm_topk_prob", true}}),
              HasSubstr("norm_topk_prob: found true"));
}

// What transformers 5 writes for the same model (here V2-Lite's keys as version 5.7 saves them).
TEST(Families, NewerSpellingsMeanTheSame) {
  json parameters = file_of("deepseek-v2-lite")["rope_scaling"];
  parameters.update({{"rope_type", "yarn"}, {"rope_theta", 10000}});
  const ModelConfig config = parse_changed("deepseek-v2-lite", {{"rope_parameters", parameters},
                                                                {"rope_scaling", nullptr},
                                                                {"rope_theta", absent},
                                                                {"torch_dtype", absent},
                                                                {"dtype", "bfloat16"},
                                                                {"head_dim", 64},
                                                                {"mlp_bias", false}});
  EXPECT_EQ(config.rope, load_model("deepseek-v2-lite").rope);
  EXPECT_EQ(config.head_dim, 192);
  EXPECT_EQ(parse_changed("qwen3-30b-a3b", {{"num_local_experts", 128}, {"num_experts", absent}})
                .moe->experts,
            128);
  EXPECT_THAT(error_changed("qwen3-30b-a3b", {{"num_local_experts", 64}}),
              AllOf(HasSubstr("num_local_experts: found 64"), HasSubstr("128")));
}

TEST(Families, TheTextPartOfAMultimodalFile) {
  const json inner = file_of("kimi-k2");
  const json file = {{"model_type", "kimi_k25"},
                     {"architectures", json::array({"KimiK25ForConditionalGeneration"})},
                     {"text_config", inner},
                     {"vision_config", {{"hidden_size", 1152}}},
                     {"tie_word_embeddings", false}};
  const ModelConfig config = parse_config(file.dump(), "c.json");
  EXPECT_EQ(config.model_type, "kimi_k2");
  EXPECT_EQ(config.moe->experts, 384);
  EXPECT_EQ(config.dense_layers, 1);
  EXPECT_THAT(config.warnings, testing::ElementsAre(HasSubstr("text_config")));
  json other = file;
  other["text_config"]["hidden_size"] = "7168";
  EXPECT_THAT(error_of([&] { parse_config(other.dump(), "c.json"); }),
              HasSubstr("c.json: text_config.hidden_size: found \"7168\""));
  other = file;
  other["tie_word_embeddings"] = true;
  EXPECT_THAT(error_of([&] { parse_config(other.dump(), "c.json"); }),
              HasSubstr("tie_word_embeddings"));
}

TEST(Families, UnknownArchitecturesAreRefusedWithTheListOfKnownOnes) {
  EXPECT_THAT(error_changed("llama3.1-8b", {{"model_type", "qwen3_next"}}),
              AllOf(HasSubstr("qwen3_next"), HasSubstr("llama, qwen2, qwen3, mixtral, qwen3_moe, "
                                                       "deepseek_v2, deepseek_v3, kimi_k2")));
  EXPECT_THAT(
      error_changed("llama3.1-8b", {{"architectures", json::array({"LlamaForCausalLMEagle3"})}}),
      AllOf(HasSubstr("architectures: found \"LlamaForCausalLMEagle3\""),
            HasSubstr("LlamaForCausalLM")));
}

TEST(Families, NoSizeHasADefault) {
  const std::map<std::string, std::vector<std::string>> sizes = {
      {"qwen2.5-7b", {"hidden_size", "num_attention_heads", "vocab_size"}},
      {"qwen3-8b", {"head_dim", "intermediate_size"}},
      {"mixtral-8x7b", {"num_local_experts", "num_experts_per_tok", "intermediate_size"}},
      {"qwen3-30b-a3b", {"num_experts", "moe_intermediate_size", "head_dim"}},
      {"deepseek-v2", {"n_group", "topk_group", "n_shared_experts"}},
      {"deepseek-v3",
       {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
        "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts",
        "first_k_dense_replace", "n_group", "topk_group", "routed_scaling_factor"}}};
  for (const auto& [model, keys] : sizes)
    for (const std::string& key : keys)
      EXPECT_THAT(error_changed(model, {{key, absent}}),
                  HasSubstr("c.json: " + key + ": found nothing"))
          << model;
}

TEST(Families, WhatChangesTheArithmeticIsRefusedByName) {
  const std::vector<std::tuple<std::string, std::string, json>> cases = {
      {"qwen2.5-7b", "hidden_act", "gelu"},
      {"qwen3-8b", "attention_bias", true},
      {"deepseek-v3", "attention_bias", true},
      {"llama3.1-8b", "attention_dropout", 0.1},
      {"mixtral-8x7b", "router_jitter_noise", 0.01},
      {"mixtral-8x7b", "output_router_logits", true},
      {"mixtral-8x7b", "sliding_window", 4096},
      {"llama3.1-8b", "num_local_experts", 8},
      {"qwen3-8b", "kv_lora_rank", 512},
      {"deepseek-v2", "num_nextn_predict_layers", 1},
      {"deepseek-v3", "scoring_func", "softmax"},
      {"deepseek-v2", "scoring_func", "sigmoid"},
      {"deepseek-v3", "topk_method", "greedy"},
      {"deepseek-v3", "num_key_value_heads", 64},
      {"deepseek-v3", "head_dim", 96},
      {"deepseek-v3", "use_mla", false},
      {"deepseek-v3", "index_topk", 2048}};
  for (const auto& [model, key, value] : cases)
    EXPECT_THAT(error_changed(model, {{key, value}}), HasSubstr("c.json: " + key + ": found "))
        << model;
}

TEST(Families, SlidingWindowsCountOnlyWhereTheyAreInUse) {
  EXPECT_THAT(
      error_changed("qwen2.5-7b", {{"use_sliding_window", true}, {"max_window_layers", 21}}),
      HasSubstr("sliding_window: found 131072"));
  EXPECT_NO_THROW(parse_changed("qwen2.5-7b", {{"use_sliding_window", true}}));  // from layer 28
  EXPECT_NO_THROW(parse_changed("qwen2.5-7b", {{"use_sliding_window", absent}}));
  EXPECT_THAT(
      error_changed("qwen3-30b-a3b", {{"use_sliding_window", true}, {"sliding_window", 4096}}),
      HasSubstr("sliding_window: found 4096"));
  std::vector<std::string> types(36, "full_attention");
  EXPECT_NO_THROW(parse_changed("qwen3-8b", {{"layer_types", types}}));
  types[35] = "linear_attention";
  EXPECT_THAT(error_changed("qwen3-8b", {{"layer_types", types}}),
              AllOf(HasSubstr("layer_types"), HasSubstr("linear_attention")));
  types.pop_back();
  EXPECT_THAT(error_changed("qwen3-8b", {{"layer_types", types}}), HasSubstr("36 layers"));
}

TEST(Families, RoutersThatCannotChooseAreRefused) {
  EXPECT_THAT(error_changed("mixtral-8x7b", {{"num_experts_per_tok", 9}}),
              AllOf(HasSubstr("num_experts_per_tok: found 9"), HasSubstr("8")));
  EXPECT_THAT(error_changed("deepseek-v3", {{"n_group", 7}}), HasSubstr("n_group: found 7"));
  EXPECT_THAT(error_changed("deepseek-v3", {{"topk_group", 9}}), HasSubstr("topk_group: found 9"));
  EXPECT_THAT(error_changed("deepseek-v3", {{"n_group", 128}, {"topk_group", 3}}),
              HasSubstr("topk_group: found 3"));  // 6 experts to choose 8 from
  EXPECT_THAT(error_changed("deepseek-v3", {{"n_group", 256}, {"topk_group", 8}}),
              HasSubstr("n_group: found 256"));
}

struct Layout {
  int64_t dense, moe;
  bool interleaved;
  friend bool operator==(const Layout&, const Layout&) = default;
};
Layout layout_of(const ModelConfig& c) {
  return {c.dense_layers, c.moe_layers, c.interleaved_layers};
}

TEST(MoeLayers, DeepSeekByNumberOrList) {
  EXPECT_EQ(layout_of(load_model(case_path("c19b_moe_layer_freq_list.json"))),
            (Layout{3, 58, false}));
  const auto with = [](int64_t first, const json& freq) {
    return layout_of(parse_changed(
        "deepseek-tiny",
        {{"num_hidden_layers", 6}, {"first_k_dense_replace", first}, {"moe_layer_freq", freq}}));
  };
  EXPECT_EQ(with(2, 1), (Layout{2, 4, false}));
  EXPECT_EQ(with(2, absent), (Layout{2, 4, false}));
  EXPECT_EQ(with(6, 1), (Layout{6, 0, false}));
  EXPECT_EQ(with(1, 2), (Layout{4, 2, true}));   // 2, 4
  EXPECT_EQ(with(3, 5), (Layout{5, 1, false}));  // 5
  EXPECT_EQ(with(1, json::array({0, 0, 1, 0, 1, 1})), (Layout{3, 3, true}));
  EXPECT_EQ(with(0, json::array({0, 0, 0, 0, 0, 0})), (Layout{6, 0, false}));
  const auto refused = [](const json& first, const json& freq) {
    return error_changed("deepseek-tiny",
                         {{"first_k_dense_replace", first}, {"moe_layer_freq", freq}});
  };
  EXPECT_THAT(refused(5, 1), AllOf(HasSubstr("first_k_dense_replace: found 5"), HasSubstr("4")));
  EXPECT_THAT(refused(1, json::array({0, 1, 1})),
              AllOf(HasSubstr("moe_layer_freq"), HasSubstr("of 3")));
  EXPECT_THAT(refused(1, json::array({1, 1, 1, 1})), HasSubstr("first_k_dense_replace"));
  EXPECT_THAT(refused(1, json::array({0, 1, 2, 1})), HasSubstr("moe_layer_freq"));
  EXPECT_THAT(refused(1, 0), HasSubstr("moe_layer_freq: found 0"));
  EXPECT_THAT(refused(-1, 1), HasSubstr("first_k_dense_replace: found -1"));
}

TEST(MoeLayers, QwenByStepAndExceptions) {
  const auto with = [](int64_t step, const json& dense) {
    return layout_of(parse_changed(
        "qwen3-30b-a3b",
        {{"num_hidden_layers", 6}, {"decoder_sparse_step", step}, {"mlp_only_layers", dense}}));
  };
  EXPECT_EQ(with(1, json::array()), (Layout{0, 6, false}));
  EXPECT_EQ(with(1, json::array({0, 1, 1})), (Layout{2, 4, false}));
  EXPECT_EQ(with(1, json::array({5})), (Layout{1, 5, true}));
  EXPECT_EQ(with(2, json::array()), (Layout{3, 3, true}));            // 1, 3, 5
  EXPECT_EQ(with(2, json::array({0, 1, 3})), (Layout{5, 1, false}));  // 5
  EXPECT_EQ(with(7, json::array()), (Layout{6, 0, false}));
  EXPECT_THAT(error_changed("qwen3-30b-a3b", {{"mlp_only_layers", json::array({48})}}),
              HasSubstr("mlp_only_layers"));
}

TEST(MoeLayers, ANumberOfLayersKeepsTheOrder) {
  ModelConfig config = load_model("deepseek-v3");
  set_layers(config, 5);
  EXPECT_EQ(layout_of(config), (Layout{3, 2, false}));
  set_layers(config, 9);
  EXPECT_EQ(layout_of(config), (Layout{3, 6, false}));
  set_layers(config, 2);
  EXPECT_EQ(layout_of(config), (Layout{2, 0, false}));
  EXPECT_EQ(config.layers, 2);
  ModelConfig mixed =
      parse_changed("deepseek-tiny", {{"moe_layer_freq", json::array({0, 1, 0, 1})}});
  EXPECT_NO_THROW(set_layers(mixed, 4));
  EXPECT_THROW(set_layers(mixed, 3), InputError);
}

}  // namespace
}  // namespace spillway
