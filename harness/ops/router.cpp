// router {logits[T,E] f32, (bias[E] f32)} -> {experts[T,k] i32, weights[T,k] f32}
// Scores are the softmax over all experts (DeepSeek-V2, Mixtral, Qwen3-MoE) or sigmoids
// (DeepSeek-V3). The k largest of score + bias are taken, in falling order; equal ones by the lower
// index. With groups, those outside the top_groups best count as 0; a group is worth the sum of its
// two best or its best. Weights are the scores without the bias, where asked divided by their sum +
// 1e-20, times scale (transformers' DeepseekV3TopkRouter, DeepseekV2MoEGate).
// routing.choice other than `model` replaces which experts are taken: slot j of token t gets
//   uniform: (t k + j) mod E   one: j
//   zipf: one not yet taken, with probability ~ 1 / (e + 1)^zipf, by the (t k + j)th number of
//   SplitMix64 from `seed`.
// A NaN in a token's logits (or in the bias) makes its weights NaN.
// Attributes: routing.
#include "harness/ops/router.h"

#include <cmath>
#include <vector>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/operands.h"
#include "harness/routing.h"

namespace spillway {

std::string check_routing(const Routing& r, int64_t experts, int64_t top_k) {
  const std::string positive = require_positive({{"routing.experts", r.experts},
                                                 {"routing.top_k", r.top_k},
                                                 {"routing.groups", r.groups},
                                                 {"routing.top_groups", r.top_groups}});
  if (!positive.empty()) return positive;
  if (r.experts != experts)
    return text("has ", experts, " logits a token, expected routing.experts = ", r.experts);
  if (r.top_k != top_k)
    return text("gives ", top_k, " experts a token, expected routing.top_k = ", r.top_k);
  if (r.experts % r.groups != 0)
    return text(r.experts, " experts do not divide into ", r.groups, " groups");
  if (r.top_groups > r.groups)
    return text("takes ", r.top_groups, " groups, expected at most ", r.groups);
  const int64_t eligible = r.experts / r.groups * r.top_groups;
  if (r.top_k > eligible) return text("takes ", r.top_k, " experts, expected at most ", eligible);
  return "";
}

namespace {

std::string check_router(const Program& program, const Op& op) {
  const Signature s =
      match(program, op, "logits[T,E]:f32 (bias[E]:f32) -> experts[T,k]:i32 weights[T,k]:f32");
  return s.error.empty() ? check_routing(op.attributes.routing, s["E"], s["k"]) : s.error;
}

OpCost cost_router(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

// Index of the largest of x[n] not yet marked as taken; the first of equal ones.
constexpr float taken = -INFINITY;
int64_t first_largest(const float* x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i)
    best = x[i] > x[best] || x[best] == taken ? i : best;
  return best;
}

// What a group is worth: its best, or the sum of its two best.
float group_worth(Routing::GroupScore how, const float* x, int64_t n) {
  float best = x[0], second = 0;
  for (int64_t i = 1; i < n; ++i) {
    const float next = x[i] > best ? best : x[i];
    second = i == 1 || next > second ? next : second;
    best = x[i] > best ? x[i] : best;
  }
  return how == Routing::GroupScore::max ? best : best + second;
}

// Sets to 0 what lies outside the best groups. `worth`: room for one float a group.
void keep_best_groups(const Routing& r, float* x, float* worth) {
  const int64_t size = r.experts / r.groups;
  for (int64_t g = 0; g < r.groups; ++g)
    worth[g] = group_worth(r.group_score, x + g * size, size);
  for (int64_t i = 0; i < r.top_groups; ++i)
    worth[first_largest(worth, r.groups)] = taken;
  for (int64_t g = 0; g < r.groups; ++g) {
    if (worth[g] != taken) std::fill_n(x + g * size, size, 0.f);
  }
}

// The n-th number (from 0) of Steele, Lea and Flood's SplitMix64, as one of [0, 1).
double random_number(uint64_t seed, uint64_t n) {
  uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

// 1 / rank^zipf of every expert, rank = e + 1; empty where the choice is another.
std::vector<double> zipf_shares(const Routing& r) {
  std::vector<double> shares;
  for (int64_t e = 0; r.choice == Routing::Choice::zipf && e < r.experts; ++e)
    shares.push_back(std::pow(static_cast<double>(e + 1), -r.zipf));
  return shares;
}

// Draws without replacement: `point` runs through what is left of the shares.
void draw(const Routing& r, int64_t t, std::vector<double> shares, int32_t* experts) {
  for (int64_t j = 0; j < r.top_k; ++j) {
    double left = 0;
    for (const double share : shares)
      left += share;
    double point = left * random_number(r.seed, static_cast<uint64_t>(t * r.top_k + j));
    size_t chosen = 0;
    for (size_t e = 0; e < shares.size() && point >= 0; ++e) {
      if (shares[e] == 0) continue;
      chosen = e;
      point -= shares[e];
    }
    experts[j] = static_cast<int32_t>(chosen);
    shares[chosen] = 0;
  }
}

// `x` holds score + bias and is used up; only the choice `model` looks at `x` and `worth`.
void choose(const Routing& r, int64_t t, const std::vector<double>& shares, float* x, float* worth,
            int32_t* experts) {
  if (r.choice == Routing::Choice::zipf) return draw(r, t, shares, experts);
  const bool by_scores = r.choice == Routing::Choice::model;
  if (by_scores && r.top_groups < r.groups) keep_best_groups(r, x, worth);
  for (int64_t j = 0; j < r.top_k; ++j) {
    int64_t expert = r.choice == Routing::Choice::one ? j : (t * r.top_k + j) % r.experts;
    if (by_scores) {
      expert = first_largest(x, r.experts);
      x[expert] = taken;
    }
    experts[j] = static_cast<int32_t>(expert);
  }
}

// Divided by their sum and scaled as asked; NaN where `x`, the scores with the bias, has one.
void weigh(const Routing& r, const float* scores, const float* x, const int32_t* experts,
           float* weights) {
  bool lost = false;
  for (int64_t e = 0; e < r.experts; ++e)
    lost = lost || std::isnan(x[e]);
  float total = router_epsilon;
  for (int64_t j = 0; j < r.top_k; ++j)
    total += scores[experts[j]];
  const float scale = static_cast<float>(r.scale) / (r.normalise ? total : 1.f);
  for (int64_t j = 0; j < r.top_k; ++j)
    weights[j] = lost ? NAN : scores[experts[j]] * scale;
}

void run_router(const OpCall& call, ThreadPool& pool) {
  const Routing& r = call.op->attributes.routing;
  const bool biased = call.inputs.size() > 1;
  const std::vector<double> shares = zipf_shares(r);
  const auto one_row = [&](int64_t t, auto isa) SPILLWAY_SIMD {
    float *scores = row_scratch(0, r.experts), *x = row_scratch(1, r.experts),
          *left = row_scratch(2, r.experts), *worth = row_scratch(3, r.groups);
    load(call.inputs[0], t * r.experts, r.experts, scores);
    router_scores(r.score, r.experts, scores, isa);
    for (int64_t e = 0; e < r.experts; ++e)
      x[e] = scores[e] + (biased ? call.inputs[1].as<float>()[e] : 0.f);
    std::copy_n(x, r.experts, left);
    int32_t* experts = call.outputs[0].as<int32_t>() + t * r.top_k;
    choose(r, t, shares, left, worth, experts);
    weigh(r, scores, x, experts, call.outputs[1].as<float>() + t * r.top_k);
  };
  for_blocks(pool, call.inputs[0].shape[0], rows_per_block(r.experts * 8),
             [&](int64_t first, int64_t count) {
               simd([&](auto isa) SPILLWAY_SIMD {
                 for (int64_t t = first; t < first + count; ++t)
                   one_row(t, isa);
               });
             });
}

// What choose() comes to for `uniform`: consecutive numbers, modulo the experts.
std::vector<int64_t> rows_in_turn(const Routing& r, int64_t first_token, int64_t tokens) {
  const int64_t choices = tokens * r.top_k, first = first_token * r.top_k % r.experts;
  std::vector<int64_t> rows(static_cast<size_t>(r.experts), choices / r.experts);
  for (int64_t n = first; n < first + choices % r.experts; ++n)
    ++rows[static_cast<size_t>(n % r.experts)];
  return rows;
}

}  // namespace

std::optional<std::vector<int64_t>> rows_of_experts(const Routing& r, int64_t first_token,
                                                    int64_t tokens) {
  if (r.choice == Routing::Choice::model) return std::nullopt;
  if (r.choice == Routing::Choice::uniform) return rows_in_turn(r, first_token, tokens);
  const std::vector<double> shares = zipf_shares(r);
  std::vector<int64_t> rows(static_cast<size_t>(r.experts), 0);
  std::vector<int32_t> experts(static_cast<size_t>(r.top_k));
  for (int64_t t = first_token; t < first_token + tokens; ++t) {
    choose(r, t, shares, nullptr, nullptr, experts.data());
    for (const int32_t expert : experts)
      ++rows[index_of(expert)];
  }
  return rows;
}

const OpInfo router_info = {
    OpKind::router, "router",    Lane::compute, "experts of every token and their weights",
    check_router,   cost_router, run_router};

}  // namespace spillway
