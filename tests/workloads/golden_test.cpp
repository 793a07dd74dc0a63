// The golden values of models with experts, read by the names tests of those models use, and
// whether they fit together.
#include "tests/support/golden.h"

#include <algorithm>
#include <numeric>
#include <span>

#include <gtest/gtest.h>

namespace spillway {
namespace {

struct MoeCase {
  const char* name;
  std::vector<int64_t> router_layers;
  const char* up_proj;  // of an expert, [ffn, hidden]
  int64_t experts, top_k, ffn, hidden;
  float sum;  // of a token's weights; 0: not normalised
};

const std::vector<MoeCase> moe_cases = {
    {"tiny_deepseek", {1, 2}, "layers.mlp.experts.up_proj.weight", 12, 4, 9, 32, 2.5f},
    {"tiny_deepseek_direct_q", {1, 2}, "layers.mlp.experts.up_proj.weight", 8, 3, 12, 36, 1.5f},
    {"tiny_mixtral", {0, 1}, "layers.block_sparse_moe.experts.w3.weight", 8, 2, 14, 40, 1},
    {"tiny_qwen3_moe", {0, 1}, "layers.mlp.experts.up_proj.weight", 9, 3, 13, 32, 0}};

TEST(Golden, ChoicesAreDistinctExpertsInAscendingOrder) {
  for (const MoeCase& moe : moe_cases) {
    SCOPED_TRACE(moe.name);
    const Golden golden(moe.name);
    EXPECT_EQ(golden.router_layers(), moe.router_layers);
    for (const int64_t layer : moe.router_layers) {
      const RouterChoices found = golden.choices(layer);
      ASSERT_EQ(found.top_k, moe.top_k);
      ASSERT_EQ(std::ssize(found.experts), golden.batch() * golden.seq() * moe.top_k);
      ASSERT_EQ(found.weights.size(), found.experts.size());
      for (size_t i = 0; i < found.experts.size(); i += static_cast<size_t>(moe.top_k)) {
        const auto row = std::span(found.experts).subspan(i, static_cast<size_t>(moe.top_k));
        EXPECT_GE(row.front(), 0);
        EXPECT_LT(row.back(), moe.experts);
        EXPECT_TRUE(std::ranges::is_sorted(row, std::less_equal<>())) << i;
      }
    }
  }
}

TEST(Golden, WeightsOfATokenAddUpToTheScale) {
  for (const MoeCase& moe : moe_cases) {
    SCOPED_TRACE(moe.name);
    for (const int64_t layer : moe.router_layers) {
      const RouterChoices found = Golden(moe.name).choices(layer);
      for (auto row = found.weights.begin(); row != found.weights.end(); row += moe.top_k) {
        const float sum = std::accumulate(row, row + moe.top_k, 0.0f);
        if (moe.sum == 0) {
          EXPECT_LT(sum, 0.95);
        } else {
          EXPECT_NEAR(sum, moe.sum, 1e-5);
        }
      }
    }
  }
}

// An expert's gradient is zero exactly where no token chose it.
TEST(Golden, OnlyChosenExpertsHaveGradients) {
  for (const MoeCase& moe : moe_cases) {
    SCOPED_TRACE(moe.name);
    const Golden golden(moe.name);
    for (const int64_t layer : moe.router_layers) {
      const std::vector<float> gradient =
          golden.tensor("gradient", moe.up_proj, {layer, layer + 1});
      ASSERT_EQ(std::ssize(gradient), moe.experts * moe.ffn * moe.hidden);
      const RouterChoices found = golden.choices(layer);
      for (int64_t expert = 0; expert < moe.experts; ++expert) {
        const auto first = gradient.begin() + expert * moe.ffn * moe.hidden;
        const bool used = std::any_of(first, first + moe.ffn * moe.hidden,
                                      [](float value) { return value != 0; });
        EXPECT_EQ(used, std::ranges::count(found.experts, expert) > 0) << layer << ' ' << expert;
      }
    }
  }
}

TEST(Golden, StacksAreTheLayersThatHoldTheName) {
  const Golden golden("tiny_deepseek");  // layer 0 is dense
  EXPECT_EQ(golden.tensor("weight", "layers.mlp.up_proj.weight").size(), 40u * 32);
  EXPECT_EQ(golden.tensor("weight", "layers.mlp.shared_experts.up_proj.weight").size(),
            2u * 9 * 32);
  EXPECT_EQ(golden.tensor("weight", "layers.mlp.experts.up_proj.weight").size(), 2u * 12 * 9 * 32);
  EXPECT_EQ(golden.tensor("weight", "layers.input_layernorm.weight").size(), 3u * 32);
  EXPECT_EQ(golden.tensor("weight", "layers.input_layernorm.weight", {0, 1}).size(), 32u);
  EXPECT_EQ(golden.tensor("weight", "layers.input_layernorm.weight", {1, 3}).size(), 2u * 32);
  EXPECT_FALSE(golden.has("weight", "layers.mlp.up_proj.weight", {1, 3}));
  EXPECT_FALSE(golden.has("weight", "layers.self_attn.q_proj.weight"));
  EXPECT_TRUE(Golden("tiny_deepseek_direct_q").has("weight", "layers.self_attn.q_proj.weight"));
}

// Weights, but nothing that training's gradient moves.
TEST(Golden, CorrectionBiasHasNoGradient) {
  const Golden golden("tiny_deepseek");
  const std::string name = "layers.mlp.gate.e_score_correction_bias";
  const std::vector<float> bias = golden.tensor("weight", name);
  EXPECT_EQ(bias.size(), 2u * 12);
  EXPECT_EQ(std::ranges::count(bias, 0.0f), 0);
  EXPECT_FALSE(golden.has("gradient", name));
}

}  // namespace
}  // namespace spillway
