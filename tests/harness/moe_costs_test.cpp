// Costs and legality of the ops of latent attention and mixtures of experts, by hand.
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/ops/rope.h"
#include "tests/support/op_case.h"

namespace spillway {
namespace {

OpCost cost_of(const OpCase& c) {
  const OneOp one = program_of(c);
  EXPECT_EQ(info(c.kind).check(one.program, one.op), "") << c.name;
  return info(c.kind).cost(one.program, one.op);
}

std::string refusal_of(const OpCase& c) {
  const OneOp one = program_of(c);
  return info(c.kind).check(one.program, one.op);
}

// published.md section 4's DeepSeek-V3 attention: 128 heads of 192 for q and k and 128 for v:
// b s^2 H (192 + 128), causal-halved.
TEST(MoeCosts, LatentAttentionCountsBothWidths) {
  Attributes a;
  a.batch = 8;
  a.seq = 4096;
  a.heads = a.kv_heads = 128;
  a.head_dim = 192;
  a.value_dim = 128;
  const int64_t rows = a.batch * a.seq;
  const Item q{{rows, 128 * 192}, DType::bf16}, v{{rows, 128 * 128}, DType::bf16},
      lse{{rows, 128}, DType::f32};
  const double one = 8.0 * 4096 * 4096 * 128;
  const OpCost forward = cost_of({"f", OpKind::attention, a, {q, q, v}, {v, lse}, {}});
  EXPECT_EQ(forward.attention_flops, one * 320);
  const OpCost backward =
      cost_of({"b", OpKind::attention_backward, a, {q, q, v, v, lse, v}, {q, q, v}, {}});
  EXPECT_EQ(backward.attention_flops, one * 640);
  EXPECT_EQ(backward.attention_extra_flops, one * 192);
}

// DeepSeek-V3's routed gate at micro batch 8: 2 x 262,144 rows x 2,048 x 7,168 in all three forms.
TEST(MoeCosts, GroupedProductsCountEveryPlannedRow) {
  const Item rows{{262144, 7168}, DType::bf16}, out{{262144, 2048}, DType::bf16},
      weight{{256, 2048, 7168}, DType::bf16}, offsets{{257}, DType::i32};
  Attributes forward, weights;
  forward.transpose_b = true;
  weights.transpose_a = true;
  const double flops = 2.0 * 262144 * 2048 * 7168;
  for (const OpCase& c :
       {OpCase{"f", OpKind::grouped_matmul, forward, {rows, weight, offsets}, {out}, {}},
        OpCase{"i", OpKind::grouped_matmul, {}, {out, weight, offsets}, {rows}, {}},
        OpCase{"w", OpKind::grouped_matmul, weights, {out, rows, offsets}, {weight}, {}}}) {
    const OpCost cost = cost_of(c);
    EXPECT_EQ(cost.matmul_flops, flops);
    EXPECT_EQ(cost.bytes, 262144.0 * (7168 + 2048) * 2 + 256.0 * 2048 * 7168 * 2 + 257 * 4);
  }
}

// 8 sequences of 4,096 with 256 experts of 128 slots: 2 x 32,768 x 32,768 x 7,168 for each einsum.
TEST(MoeCosts, EinsumsOfTheCapacityPathAreDense) {
  Attributes a;
  a.batch = 8;
  a.seq = 4096;
  a.capacity = 128;
  const Item mask{{32768, 32768}, DType::bf16}, x{{32768, 7168}, DType::bf16},
      y{{8 * 32768, 7168}, DType::bf16};
  const double flops = 2.0 * 32768 * 32768 * 7168;
  EXPECT_EQ(cost_of({"d", OpKind::dispatch_einsum, a, {mask, x}, {y}, {}}).matmul_flops, flops);
  EXPECT_EQ(cost_of({"c", OpKind::combine_einsum, a, {mask, y}, {x}, {}}).matmul_flops, flops);
  EXPECT_EQ(cost_of({"m", OpKind::mask_gradient, a, {x, y}, {mask}, {}}).matmul_flops, flops);
}

TEST(MoeCosts, AnExchangeSendsItsInput) {
  Attributes a;
  a.devices = 4;
  const Item sent{{100, 8}, DType::bf16}, received{{200, 8}, DType::bf16};
  const OpCost cost = cost_of({"x", OpKind::all_to_all, a, {sent}, {received}, {}});
  EXPECT_EQ(cost.group_bytes, 100 * 8 * 2);
  EXPECT_EQ(cost.bytes, 300 * 8 * 2);
  const Item narrow{{200, 7}, DType::bf16};
  EXPECT_EQ(refusal_of({"x", OpKind::all_to_all, a, {sent}, {narrow}, {}}),
            "y (out0) is [200,7], expected [S=200,D=8]");
}

TEST(MoeCosts, OnlyWhatIsReadCounts) {
  const Item wide{{10, 70}, DType::bf16}, narrow{{10, 5}, DType::bf16};
  EXPECT_EQ(cost_of(op_case("c", OpKind::columns, {wide}, {narrow})).bytes, 2 * 10 * 5 * 2);
  Attributes a;
  a.seq = 10;
  a.heads = 2;
  a.head_dim = 6;
  a.rope_dim = 2;
  a.value_dim = 3;
  const Item kv{{10, 14}, DType::bf16}, key{{10, 12}, DType::bf16}, value{{10, 6}, DType::bf16};
  EXPECT_EQ(cost_of({"k", OpKind::mla_key_value, a, {kv, wide}, {key, value}, {}}).bytes,
            10 * (14 + 2 + 12 + 6) * 2);
}

TEST(MoeOps, RefusalsSayWhatWasFoundAndExpected) {
  const Item x{{10, 70}, DType::bf16}, y{{10, 5}, DType::bf16}, w{{32}, DType::bf16},
      order{{15}, DType::i32}, routed{{15, 70}, DType::bf16};
  OpCase c = op_case("c", OpKind::columns, {x}, {y});
  c.attributes.first_column = 66;
  EXPECT_EQ(refusal_of(c), "takes columns 66 to 71, expected them within 0 to 70");
  EXPECT_EQ(refusal_of(op_case("n", OpKind::rms_norm, {x, w}, {x})),
            "rows of 70 do not divide into groups of 32, the width of w");
  EXPECT_EQ(refusal_of(op_case("p", OpKind::permute, {x, order}, {routed})),
            "has 15 rows for 10 tokens, expected 1 a token");
  c = op_case("r", OpKind::rope, {x}, {x});
  c.attributes.seq = 10;
  c.attributes.heads = 7;
  c.attributes.head_dim = 10;
  c.attributes.rope_dim = 12;
  EXPECT_EQ(refusal_of(c), "attribute rope_dim is 12, expected 0 to head_dim = 10");
  c.attributes.rope_dim = 5;
  EXPECT_EQ(refusal_of(c), "turns 5 columns of a head, expected an even number");
}

// Scalings of published configs as transformers computes them (tests/golden/make_rope_yarn.py).
TEST(Rope, YarnIsThatOfTransformers) {
  std::ifstream file(SPILLWAY_SOURCE_DIR "/tests/golden/rope_yarn.json");
  const auto golden = nlohmann::json::parse(file);
  for (const auto& [name, entry] : golden.items()) {
    if (name == "made_with") continue;
    const auto& scaling = entry["scaling"];
    Rope rope;
    rope.kind = RopeKind::yarn;
    rope.theta = entry["theta"];
    rope.factor = scaling["factor"];
    rope.original_max_position = scaling["original_max_position_embeddings"];
    rope.beta_fast = scaling.value("beta_fast", 32.0);
    rope.beta_slow = scaling.value("beta_slow", 1.0);
    rope.mscale = scaling.value("mscale", 0.0);
    rope.mscale_all_dim = scaling.value("mscale_all_dim", 0.0);
    rope.truncate = scaling.value("truncate", true);
    EXPECT_NEAR(rope_attention_factor(rope), entry["attention_factor"], 1e-12) << name;
    const std::vector<float> frequencies = rope_frequencies(entry["dim"], rope);
    ASSERT_EQ(frequencies.size(), entry["inv_freq"].size()) << name;
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const double want = entry["inv_freq"][i];
      EXPECT_NEAR(frequencies[i], want, 1e-6 * want) << name << ' ' << i;
    }
  }
  Rope stated;
  stated.kind = RopeKind::yarn;
  stated.factor = 40;
  stated.attention_factor = 0.7;
  EXPECT_EQ(rope_attention_factor(stated), 0.7);
}

}  // namespace
}  // namespace spillway
