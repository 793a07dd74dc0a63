// Every CPU kernel against its definition in double precision, over the shared op-test table; and
// the op table itself.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/rope.h"
#include "tests/support/expect_close.h"
#include "tests/support/op_cases.h"

namespace spillway {
namespace {

class Kernels : public testing::TestWithParam<OpCase> {};

TEST_P(Kernels, ComputeWhatTheyMean) {
  const OpCase& c = GetParam();
  const OneOp one = program_of(c);
  ASSERT_EQ(info(c.kind).check(one.program, one.op), "");
  const auto inputs = random_inputs(c, 1);
  const auto want = reference(c, inputs);
  const auto bits = run_kernel(c, inputs, 2);
  for (size_t i = 0; i < want.size(); ++i) {
    expect_close(decode(bits[i], c.outputs[i]), want[i], c.outputs[i].dtype, text("output ", i));
  }
}

TEST_P(Kernels, GiveTheSameBitsForAnyThreadsAndAddress) {
  OpCase c = GetParam();
  const auto inputs = random_inputs(c, 2);
  const auto bits = run_kernel(c, inputs, 1);
  EXPECT_EQ(bits, run_kernel(c, inputs, 1)) << "a second time";
  EXPECT_EQ(bits, run_kernel(c, inputs, 2)) << "two threads";
  EXPECT_EQ(bits, run_kernel(c, inputs, 3, 1)) << "three threads, addresses one element off";
  c.in_place.clear();
  EXPECT_EQ(bits, run_kernel(c, inputs, 2)) << "not in place";
}

INSTANTIATE_TEST_SUITE_P(Table, Kernels, testing::ValuesIn(op_cases()),
                         [](const auto& test) { return test.param.name; });

bool any_nan(const OpCase& c, const std::vector<std::vector<std::byte>>& bits) {
  for (size_t i = 0; i < bits.size(); ++i) {
    for (const double x : decode(bits[i], c.outputs[i])) {
      if (std::isnan(x)) return true;
    }
  }
  return false;
}

bool small(const OpCase& c) {
  return std::all_of(c.inputs.begin(), c.inputs.end(),
                     [](const Item& item) { return elements_of(item.shape) <= 6000; });
}

// A NaN at either end of any input of floats reaches an output: poisoned memory is never read
// unnoticed.
TEST(AllKernels, PassNaNOn) {
  std::set<OpKind> seen;
  for (const OpCase& c : op_cases()) {
    if (!small(c)) continue;
    seen.insert(c.kind);
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      if (c.inputs[i].dtype == DType::i32) continue;
      auto inputs = random_inputs(c, 4);
      if (c.kind == OpKind::embed) inputs[0].assign(inputs[0].size(), 0);  // the first row is read
      inputs[i].front() = inputs[i].back() = std::nan("");
      EXPECT_TRUE(any_nan(c, run_kernel(c, inputs, 2))) << c.name << " input " << i;
    }
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(op_kind_count) - 3) << "all but the collectives";
}

// The references of backward ops against central differences of the reference of the forward op:
// the derivative of sum(dy * y) for every element of every input. Small cases only.
struct Gradient {
  OpKind forward, backward;
  std::vector<size_t> inputs;  // of the backward op: what the forward op takes
  size_t dy;                   // of the backward op: gradient of the forward op's last output
  std::vector<size_t> of = {0, 1, 2};     // the forward op's input that each gradient is for
  std::vector<size_t> more_outputs = {};  // of the backward op: what the forward op gives before
};

double weighted_output(const OpCase& forward, const std::vector<Values>& inputs, const Values& dy) {
  const Values y = reference(forward, inputs)[forward.outputs.size() - 1];
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i)
    sum += y[i] * dy[i];
  return sum;
}

void check_gradient(const Gradient& g, OpCase backward) {
  if (g.forward == OpKind::router) backward.attributes.routing.choice = Routing::Choice::uniform;
  const auto inputs = random_inputs(backward, 5);
  const auto gradients = reference(backward, inputs);
  OpCase forward = backward;
  forward.kind = g.forward;
  forward.inputs.clear();
  forward.outputs.clear();
  for (const size_t i : g.more_outputs)
    forward.outputs.push_back(backward.inputs[i]);
  forward.outputs.push_back(backward.inputs[g.dy]);
  std::vector<Values> x;
  for (const size_t i : g.inputs) {
    forward.inputs.push_back(backward.inputs[i]);
    x.push_back(inputs[i]);
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    for (size_t j = 0; j < gradients[i].size(); j += 1 + gradients[i].size() / 100) {
      double& moved = x[g.of[i]][j];
      const double at = moved, h = 1e-4;
      moved = at + h;
      const double above = weighted_output(forward, x, inputs[g.dy]);
      moved = at - h;
      const double below = weighted_output(forward, x, inputs[g.dy]);
      moved = at;
      ASSERT_NEAR(gradients[i][j], (above - below) / (2 * h),
                  1e-5 * (1 + std::abs(gradients[i][j])))
          << backward.name << " gradient " << i << " element " << j;
    }
  }
}

TEST(References, AreDerivatives) {
  const std::vector<Gradient> table = {
      {OpKind::rms_norm, OpKind::rms_norm_backward, {0, 1}, 2},
      {OpKind::attention, OpKind::attention_backward, {0, 1, 2}, 5},
      {OpKind::swiglu, OpKind::swiglu_backward, {0, 1}, 2},
      {OpKind::combine, OpKind::combine_backward, {1, 2, 3}, 0, {0, 2}},
      // Experts that do not move with the logits, and these are what the cases hold.
      {OpKind::router, OpKind::router_backward, {0}, 2, {0}, {1}},
  };
  int checked = 0;
  for (const OpCase& c : op_cases()) {
    for (const Gradient& g : table) {
      const bool small = elements_of(c.inputs[0].shape) <= 2 * 17 * 4 * 16;
      const bool plain = c.inputs[0].dtype == DType::f32 &&
                         c.inputs.size() <= (g.forward == OpKind::rms_norm ? 3u : 6u);
      if (c.kind != g.backward || !small || !plain) continue;
      check_gradient(g, c);
      ++checked;
    }
  }
  EXPECT_GE(checked, 16);
}

// A rotation is undone by its backward, and keeps lengths: the transpose of a rotation is its
// inverse.
TEST(References, RopeBackwardIsTheInverse) {
  for (OpCase c : op_cases()) {
    if (c.kind != OpKind::rope || rope_attention_factor(c.attributes.rope) != 1) continue;
    const auto inputs = random_inputs(c, 6);
    OpCase back = c;
    back.kind = OpKind::rope_backward;
    const auto there_and_back = reference(back, reference(c, inputs));
    for (size_t i = 0; i < inputs[0].size(); ++i)
      EXPECT_NEAR(there_and_back[0][i], inputs[0][i], 1e-12);
  }
}

// Llama 3.1's own frequencies as transformers computes them (tests/golden/make_golden.py).
TEST(Rope, FrequenciesAreThoseOfTransformers) {
  std::ifstream file(SPILLWAY_SOURCE_DIR "/tests/golden/rope_llama31.json");
  const auto golden = nlohmann::json::parse(file);
  const auto& scaling = golden["rope_scaling"];
  const Rope rope{RopeKind::llama3,
                  golden["rope_theta"],
                  scaling["factor"],
                  scaling["low_freq_factor"],
                  scaling["high_freq_factor"],
                  scaling["original_max_position_embeddings"]};
  const std::vector<float> frequencies = rope_frequencies(golden["head_dim"], rope);
  ASSERT_EQ(frequencies.size(), golden["inv_freq"].size());
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double want = golden["inv_freq"][i];
    EXPECT_NEAR(frequencies[i], want, 5e-7 * want) << i;
  }
}

TEST(OpTable, IsInTheOrderOfOpKindWithUniqueNames) {
  std::set<std::string> names;
  for (int kind = 0; kind < op_kind_count; ++kind) {
    const OpInfo& row = info(static_cast<OpKind>(kind));
    EXPECT_EQ(static_cast<int>(row.kind), kind);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_NE(std::string(row.meaning), "");
    EXPECT_EQ(row.run == nullptr, row.lane == Lane::collective) << row.name;
  }
  std::set<OpKind> tested;
  for (const OpCase& c : op_cases())
    tested.insert(c.kind);
  EXPECT_EQ(tested.size(), static_cast<size_t>(op_kind_count) - 3)
      << "kinds with a kernel in the op-test table";
}

// What each kind refuses: one operand of the first case changed.
TEST(OpTable, RefusesOperandsThatDoNotFit) {
  std::set<OpKind> seen;
  for (const OpCase& c : op_cases()) {
    if (!seen.insert(c.kind).second) continue;
    const auto refused = [&](const OpCase& broken) {
      const OneOp one = program_of(broken);
      return !info(c.kind).check(one.program, one.op).empty();
    };
    OpCase broken = c;
    broken.in_place.clear();
    broken.outputs.push_back({{3}, DType::f32});
    EXPECT_TRUE(c.kind == OpKind::adamw || refused(broken)) << c.name << " with one output more";
    broken = c;
    broken.in_place.clear();
    broken.outputs[0].shape = {elements_of(c.outputs[0].shape) + 1};
    EXPECT_TRUE(refused(broken)) << c.name << " with a longer output";
    broken = c;
    broken.in_place.clear();
    const bool integer = c.outputs[0].dtype == DType::i32;
    broken.outputs[0].dtype = integer ? DType::f32 : DType::i32;
    EXPECT_TRUE(refused(broken)) << c.name << " with an output of the wrong type";
    broken = c;
    broken.inputs.pop_back();
    broken.in_place.clear();
    EXPECT_TRUE(refused(broken)) << c.name << " with an input missing";
  }
}

TEST(OpTable, RefusalsSayWhatWasFoundAndExpected) {
  OpCase c = op_case("product", OpKind::matmul, {{{4, 8}, DType::bf16}, {{9, 5}, DType::bf16}},
                     {{{4, 5}, DType::f32}});
  OneOp one = program_of(c);
  EXPECT_EQ(info(c.kind).check(one.program, one.op), "b (in1) is [9,5], expected [K=8,N]");
  c.inputs[1] = {{8, 5}, DType::f32};
  one = program_of(c);
  EXPECT_EQ(info(c.kind).check(one.program, one.op), "b (in1) is f32, expected bf16");
}

OpCost cost(const OpCase& c) {
  const OneOp one = program_of(c);
  return info(c.kind).cost(one.program, one.op);
}

// By hand.
TEST(Costs, CountFlopsAndBytes) {
  const Item x{{6, 8}, DType::bf16}, w{{10, 8}, DType::bf16}, y{{6, 10}, DType::f32};
  Attributes transposed;
  transposed.transpose_b = true;
  const OpCost product = cost({"p", OpKind::matmul, transposed, {x, w}, {y}, {}});
  EXPECT_EQ(product.matmul_flops, 2 * 6 * 10 * 8);
  EXPECT_EQ(product.bytes, 6 * 8 * 2 + 10 * 8 * 2 + 6 * 10 * 4);

  const Item tokens{{6}, DType::i32, Item::Fill::token, 100}, table{{100, 8}, DType::bf16};
  EXPECT_EQ(cost(op_case("e", OpKind::embed, {tokens, table}, {x})).bytes,
            6 * 4 + 6 * 8 * 2 + 6 * 8 * 2);
  const OpCost backward = cost(op_case("b", OpKind::embed_backward, {tokens, x}, {table}));
  EXPECT_EQ(backward.bytes, 6 * 4 + 6 * 8 * 2 + 100 * 8 * 2);

  const OpCost copy = cost(op_case("c", OpKind::copy_d2h, {x}, {x}));
  EXPECT_EQ(copy.link_bytes, 6 * 8 * 2);
  EXPECT_EQ(copy.bytes, 6 * 8 * 2);  // read on the device; the host's side is not device memory
}

// published.md's 405B layer: hidden 16384, sequence 8192, micro batch 2: 4 b s^2 h / 2 FLOPs of
// causal attention forward.
TEST(Costs, AttentionIsCausalHalved) {
  Attributes a;
  a.batch = 2;
  a.seq = 8192;
  a.heads = 128;
  a.kv_heads = 8;
  a.head_dim = 128;
  const Item q{{2 * 8192, 128 * 128}, DType::bf16}, kv{{2 * 8192, 8 * 128}, DType::bf16},
      lse{{2 * 8192, 128}, DType::f32};
  const double expected = 4.0 * 2 * 8192 * 8192 * 16384 / 2;
  EXPECT_EQ(cost({"f", OpKind::attention, a, {q, kv, kv}, {q, lse}, {}}).attention_flops, expected);
  const OpCost backward =
      cost({"b", OpKind::attention_backward, a, {q, kv, kv, q, lse, q}, {q, kv, kv}, {}});
  EXPECT_EQ(backward.attention_flops, 2 * expected);
  EXPECT_EQ(backward.attention_extra_flops, expected / 2);
}

TEST(Costs, CollectivesCountTheWholeBuffer) {
  Attributes a;
  a.devices = 4;
  const Item shard{{25}, DType::bf16}, whole{{10, 10}, DType::bf16}, sum{{25}, DType::f32};
  OpCase gather{"g", OpKind::all_gather, a, {shard}, {whole}, {}},
      reduce{"r", OpKind::reduce_scatter, a, {whole}, {sum}, {}};
  for (const OpCase& c : {gather, reduce}) {
    const OneOp one = program_of(c);
    EXPECT_EQ(info(c.kind).check(one.program, one.op), "");
    EXPECT_EQ(cost(c).group_bytes, 200);
  }
  EXPECT_EQ(cost(gather).bytes, 50 + 200);
  EXPECT_EQ(cost(reduce).bytes, 100 + 200);
  gather.inputs[0].shape = {24};
  const OneOp one = program_of(gather);
  EXPECT_EQ(info(gather.kind).check(one.program, one.op),
            "shards of 24 elements on 4 devices cannot make 100 elements");
}

}  // namespace
}  // namespace spillway
