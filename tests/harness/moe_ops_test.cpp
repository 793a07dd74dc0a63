// Ops of latent attention and mixtures of experts beyond the shared table: values worked out by
// hand, what routing does with ties, empty experts and NaN, and that backward ops are adjoint to
// their forward ones.
#include <cmath>
#include <fstream>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/ops/rope.h"
#include "tests/support/op_cases.h"

namespace spillway {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr DType fp32 = DType::f32, ints = DType::i32;

std::vector<Values> outputs_of(const OpCase& c, const std::vector<Values>& inputs) {
  const OneOp one = program_of(c);
  EXPECT_EQ(info(c.kind).check(one.program, one.op), "");
  const auto bits = run_kernel(c, inputs, 2);
  std::vector<Values> outputs;
  for (size_t i = 0; i < bits.size(); ++i)
    outputs.push_back(decode(bits[i], c.outputs[i]));
  return outputs;
}

// ---- router ------------------------------------------------------------------------

OpCase router_case(const Routing& routing, int64_t tokens, bool bias) {
  OpCase c = op_case("router", OpKind::router, {{{tokens, routing.experts}, fp32}},
                     {{{tokens, routing.top_k}, ints}, {{tokens, routing.top_k}, fp32}});
  if (bias) c.inputs.push_back({{routing.experts}, fp32});
  c.attributes.routing = routing;
  return c;
}

double logit(double score) { return std::log(score / (1 - score)); }

// Eight experts in four groups, two groups kept. Scores: 0.9 0.1 | 0.5 0.4 | 0.6 0.6 | 0.2 0.2.
// Sums of groups: 1.0, 0.9, 1.2, 0.4: groups 2 and 0 stay, so 4, 5 and 0 are eligible beside 1, and
// group 1 is lost in spite of its 0.5.
TEST(Router, TakesExpertsFromTheBestGroupsAndWeighsByScores) {
  Routing r;
  r.score = Routing::Score::sigmoid;
  r.experts = 8;
  r.top_k = 3;
  r.groups = 4;
  r.top_groups = 2;
  r.scale = 2.5;
  Values logits;
  for (const double score : {0.9, 0.1, 0.5, 0.4, 0.6, 0.6, 0.2, 0.2})
    logits.push_back(logit(score));
  const auto plain = outputs_of(router_case(r, 1, false), {logits});
  EXPECT_THAT(plain[0], ElementsAre(0, 4, 5));
  EXPECT_NEAR(plain[1][0], 2.5 * 0.9 / 2.1, 1e-6);
  EXPECT_NEAR(plain[1][1], 2.5 * 0.6 / 2.1, 1e-6);

  // A bias of 0.3 on group 1 moves the choice to it (1.5 beside 1.2), the weights stay scores.
  const auto biased = outputs_of(router_case(r, 1, true), {logits, {0, 0, .3, .3, 0, 0, 0, 0}});
  EXPECT_THAT(biased[0], ElementsAre(2, 3, 4));
  EXPECT_NEAR(biased[1][0], 2.5 * 0.5 / 1.5, 1e-6);
  EXPECT_NEAR(biased[1][2], 2.5 * 0.6 / 1.5, 1e-6);

  // By their best alone, groups 0 and 2 again; unnormalised.
  r.group_score = Routing::GroupScore::max;
  r.normalise = false;
  const auto best = outputs_of(router_case(r, 1, false), {logits});
  EXPECT_THAT(best[0], ElementsAre(0, 4, 5));
  EXPECT_NEAR(best[1][0], 2.5 * 0.9, 1e-6);
}

TEST(Router, TiesGoToTheLowerIndex) {
  Routing r;
  r.experts = 6;
  r.top_k = 4;
  const auto equal = outputs_of(router_case(r, 2, false), {Values(12, 0.5)});
  EXPECT_THAT(equal[0], ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_THAT(equal[1], Each(0.25));
}

TEST(Router, ANaNAmongTheLogitsSpoilsTheWeightsOfItsTokenAlone) {
  Routing r;
  r.score = Routing::Score::sigmoid;
  r.experts = 4;
  r.top_k = 2;
  Values logits = {3, 2, 1, std::nan(""), 3, 2, 1, 0};
  const auto spoilt = outputs_of(router_case(r, 2, false), {logits});
  EXPECT_TRUE(std::isnan(spoilt[1][0]) && std::isnan(spoilt[1][1]));
  EXPECT_FALSE(std::isnan(spoilt[1][2]) || std::isnan(spoilt[1][3]));
  for (const double expert : spoilt[0])
    EXPECT_TRUE(expert >= 0 && expert < 4);
}

// How often each expert is taken.
Values loads_of(const Values& experts, int64_t count) {
  Values loads(static_cast<size_t>(count));
  for (const double e : experts)
    loads[static_cast<size_t>(e)] += 1;
  return loads;
}

TEST(Router, UniformChoiceIsExactlyEven) {
  Routing r;
  r.experts = 12;
  r.top_k = 5;
  r.choice = Routing::Choice::uniform;
  const OpCase c = router_case(r, 36, false);
  const auto outputs = outputs_of(c, random_inputs(c, 3));
  EXPECT_THAT(loads_of(outputs[0], 12), Each(36 * 5 / 12));
}

// One expert a token: frequencies are 1 / rank^1.2 over their sum, within five deviations.
TEST(Router, ZipfChoiceFollowsTheRanks) {
  constexpr int64_t tokens = 40000, experts = 8;
  Routing r;
  r.experts = experts;
  r.top_k = 1;
  r.choice = Routing::Choice::zipf;
  r.zipf = 1.2;
  r.seed = 7;
  const OpCase c = router_case(r, tokens, false);
  const auto inputs = random_inputs(c, 3);
  const Values loads = loads_of(outputs_of(c, inputs)[0], experts);
  double sum = 0;
  for (int64_t e = 0; e < experts; ++e)
    sum += std::pow(e + 1, -1.2);
  for (int64_t e = 0; e < experts; ++e) {
    const double p = std::pow(e + 1, -1.2) / sum;
    EXPECT_NEAR(loads[static_cast<size_t>(e)], tokens * p, 5 * std::sqrt(tokens * p * (1 - p)));
  }
  OpCase other = c;
  other.attributes.routing.seed = 8;
  EXPECT_NE(run_kernel(c, inputs, 2), run_kernel(other, inputs, 2)) << "another seed";
  EXPECT_EQ(run_kernel(c, inputs, 1), run_kernel(c, inputs, 3)) << "other threads";
}

TEST(Router, ZipfChoiceTakesAnExpertOnceATokenAndWeighsItByItsScore) {
  Routing r;
  r.experts = 6;
  r.top_k = 6;
  r.choice = Routing::Choice::zipf;
  r.zipf = 3;
  const OpCase c = router_case(r, 50, false);
  const auto outputs = outputs_of(c, random_inputs(c, 3));
  for (size_t t = 0; t < 50; ++t) {
    const auto first = outputs[0].begin() + static_cast<std::ptrdiff_t>(t * 6);
    EXPECT_EQ(std::set<double>(first, first + 6).size(), 6u);
    const auto weight = outputs[1].begin() + static_cast<std::ptrdiff_t>(t * 6);
    EXPECT_NEAR(std::accumulate(weight, weight + 6, 0.0), 1, 1e-6) << "softmax over all";
  }
}

TEST(Router, RefusesRoutingsThatCannotBe) {
  Routing r;
  r.experts = 8;
  r.top_k = 3;
  const auto refusal = [](const Routing& routing, int64_t experts) {
    OpCase c = router_case(routing, 2, false);
    c.inputs[0].shape[1] = experts;
    const OneOp one = program_of(c);
    return info(c.kind).check(one.program, one.op);
  };
  EXPECT_EQ(refusal(r, 8), "");
  EXPECT_EQ(refusal(r, 9), "has 9 logits a token, expected routing.experts = 8");
  r.groups = 3;
  EXPECT_EQ(refusal(r, 8), "8 experts do not divide into 3 groups");
  r.groups = 4;
  EXPECT_EQ(refusal(r, 8), "takes 3 experts, expected at most 2");
}

// ---- order by expert, and the path through it ------------------------------------------------------------------------

TEST(RouteSort, IsStableAndLeavesEmptyExperts) {
  const OpCase c = op_case("sort", OpKind::route_sort, {{{3, 2}, ints}},
                           {{{6}, ints}, {{3, 2}, ints}, {{5}, ints}});
  const auto sorted = outputs_of(c, {{3, 0, 0, 2, 3, 0}});
  EXPECT_THAT(sorted[0], ElementsAre(1, 2, 5, 3, 0, 4));
  EXPECT_THAT(sorted[1], ElementsAre(4, 0, 1, 3, 5, 2));
  EXPECT_THAT(sorted[2], ElementsAre(0, 3, 3, 4, 6));
}

// Two slots an expert and sequence: the third of expert 1 is dropped, and sequences do not share.
TEST(CapacityMask, DropsWhatFindsItsExpertFull) {
  OpCase c = op_case("mask", OpKind::capacity_mask, {{{4, 2}, ints}, {{4, 2}, fp32}},
                     {{{4, 4}, fp32}, {{4, 4}, fp32}, {{4, 2}, ints}, {{1}, ints}});
  c.attributes.batch = 2;
  c.attributes.seq = 2;
  c.attributes.capacity = 2;
  const auto masks = outputs_of(c, {{1, 1, 0, 1, 1, 0, 0, 1}, {.1, .2, .3, .4, .5, .6, .7, .8}});
  EXPECT_THAT(masks[2], ElementsAre(2, 3, 0, -1, 2, 0, 1, 3));
  EXPECT_THAT(masks[3], ElementsAre(1));
  EXPECT_THAT(masks[0], ElementsAre(0, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1));
  EXPECT_NEAR(masks[1][2], .1, 1e-7);
  EXPECT_NEAR(masks[1][3], .2, 1e-7);
}

// With room for every token the masks and einsums give what sorting and combining give.
TEST(CapacityPath, EqualsTheDroplessPathWhereNothingIsDropped) {
  constexpr int64_t batch = 2, seq = 9, tokens = batch * seq, k = 2, experts = 4, width = 5;
  constexpr int64_t capacity = seq * k, slots = experts * capacity, rows = tokens * k;
  const Item expert_item{{tokens, k}, ints, Item::Fill::token, experts},
      weight_item{{tokens, k}, fp32}, x_item{{tokens, width}, fp32};
  const OpCase random = op_case("x", OpKind::combine, {expert_item, weight_item, x_item}, {});
  const auto in = random_inputs(random, 9);
  const auto sorted =
      outputs_of(op_case("s", OpKind::route_sort, {expert_item},
                         {{{rows}, ints}, {{tokens, k}, ints}, {{experts + 1}, ints}}),
                 {in[0]});
  const Item routed{{rows, width}, fp32}, position{{tokens, k}, ints};
  const auto permuted = outputs_of(
      op_case("p", OpKind::permute, {x_item, {{rows}, ints}}, {routed}), {in[2], sorted[0]});
  const auto dropless =
      outputs_of(op_case("c", OpKind::combine, {routed, position, weight_item}, {x_item}),
                 {permuted[0], sorted[1], in[1]});

  OpCase c = op_case("m", OpKind::capacity_mask, {expert_item, weight_item},
                     {{{tokens, slots}, fp32}, {{tokens, slots}, fp32}, position, {{1}, ints}});
  c.attributes.batch = batch;
  c.attributes.seq = seq;
  c.attributes.capacity = capacity;
  const auto masks = outputs_of(c, {in[0], in[1]});
  EXPECT_EQ(masks[3][0], 0);
  const Item mask{{tokens, slots}, fp32}, y{{slots * batch, width}, fp32};
  OpCase dispatch{"d", OpKind::dispatch_einsum, c.attributes, {mask, x_item}, {y}, {}};
  const auto dispatched = outputs_of(dispatch, {masks[0], in[2]});
  OpCase gather{"g", OpKind::combine_einsum, c.attributes, {mask, y}, {x_item}, {}};
  const auto combined = outputs_of(gather, {masks[1], dispatched[0]});
  for (size_t i = 0; i < combined[0].size(); ++i)
    EXPECT_NEAR(combined[0][i], dropless[0][i], 1e-5) << i;
}

// ---- adjoints ------------------------------------------------------------------------

double inner(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// A linear op A and the ops that give the gradients of its inputs: <dy, A x> = <A^T dy, x>. `from`
// says where each input of the backward op comes from: input i of the forward op, or dy (-1).
struct Adjoint {
  OpKind forward, backward;
  size_t linear;  // the input of the forward op that it is linear in
  std::vector<int> from;
};

TEST(BackwardOps, AreAdjointToTheirForwardOps) {
  const std::vector<Adjoint> table = {
      {OpKind::permute_backward, OpKind::permute, 0, {-1, 1}},
      {OpKind::rope, OpKind::rope_backward, 0, {-1}},
      {OpKind::dispatch_einsum, OpKind::combine_einsum, 1, {0, -1}},
      {OpKind::combine_einsum, OpKind::dispatch_einsum, 1, {0, -1}},
      {OpKind::combine_einsum, OpKind::mask_gradient, 0, {-1, 1}},
      {OpKind::dispatch_einsum, OpKind::mask_gradient, 0, {1, -1}},
  };
  std::set<OpKind> checked;
  for (const OpCase& c : op_cases()) {
    for (const Adjoint& a : table) {
      if (c.kind != a.forward || c.inputs[0].dtype != fp32) continue;
      auto inputs = random_inputs(c, 11);
      const Values y = outputs_of(c, inputs)[0];
      OpCase dy_case = op_case("dy", OpKind::add, c.outputs, {});
      const Values dy = random_inputs(dy_case, 12)[0];
      OpCase back{"back", a.backward, c.attributes, {}, {c.inputs[a.linear]}, {}};
      std::vector<Values> given;
      for (const int i : a.from) {
        back.inputs.push_back(i < 0 ? c.outputs[0] : c.inputs[static_cast<size_t>(i)]);
        given.push_back(i < 0 ? dy : inputs[static_cast<size_t>(i)]);
      }
      if (a.forward == OpKind::permute_backward) {  // positions become the order: its inverse
        back.inputs[1].shape = {static_cast<int64_t>(inputs[1].size())};
        for (size_t i = 0; i < inputs[1].size(); ++i)
          given[1][static_cast<size_t>(inputs[1][i])] = static_cast<double>(i);
      }
      const Values dx = outputs_of(back, given)[0];
      const double scale = std::sqrt(inner(dy, dy) * inner(y, y));
      EXPECT_NEAR(inner(dy, y), inner(dx, inputs[a.linear]), 1e-5 * scale) << c.name;
      checked.insert(a.backward);
    }
  }
  EXPECT_EQ(checked.size(), 5u);
}

// c = a b: all three are the same sum over rows, seen from c, a and b.
TEST(BackwardOps, OfGroupedMatmulAreItsOtherForms) {
  int checked = 0;
  for (const OpCase& c : op_cases()) {
    const bool plain = c.inputs[0].dtype == fp32 && c.outputs[0].dtype == fp32;
    if (c.kind != OpKind::grouped_matmul || !c.attributes.transpose_b || !plain) continue;
    const auto in = random_inputs(c, 13);
    const Values y = outputs_of(c, in)[0];
    const Values dy = random_inputs(op_case("dy", OpKind::add, c.outputs, {}), 14)[0];
    OpCase input = c, weight = c;
    input.attributes.transpose_b = weight.attributes.transpose_b = false;
    input.inputs[0] = weight.inputs[0] = c.outputs[0];
    input.outputs[0] = weight.inputs[1] = c.inputs[0];
    weight.attributes.transpose_a = true;
    weight.outputs[0] = c.inputs[1];
    const double sum = inner(dy, y), scale = std::sqrt(inner(dy, dy) * inner(y, y));
    std::vector<Values> by_input = {dy, in[1]}, by_weight = {dy, in[0]};
    if (in.size() > 2) by_input.push_back(in[2]), by_weight.push_back(in[2]);  // offsets
    EXPECT_NEAR(inner(outputs_of(input, by_input)[0], in[0]), sum, 1e-5 * scale);
    EXPECT_NEAR(inner(outputs_of(weight, by_weight)[0], in[1]), sum, 1e-5 * scale);
    ++checked;
  }
  EXPECT_EQ(checked, 7);
}

}  // namespace
}  // namespace spillway
