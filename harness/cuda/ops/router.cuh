// router and router_backward: a warp takes a token. Scores, choice and weights as in
// harness/ops/router.cpp.
#pragma once

#include "harness/cuda/ops/call.cuh"
#include "harness/error.h"

namespace spillway {

// What the bodies need of a Routing.
struct RouterSizes {
  Routing::Score score;
  Routing::GroupScore group_score;
  Routing::Choice choice;
  bool normalise;
  int experts, top_k, groups, top_groups;
  float scale;

  explicit RouterSizes(const Routing& r)
      : score(r.score),
        group_score(r.group_score),
        choice(r.choice),
        normalise(r.normalise),
        experts(static_cast<int>(r.experts)),
        top_k(static_cast<int>(r.top_k)),
        groups(static_cast<int>(r.groups)),
        top_groups(static_cast<int>(r.top_groups)),
        scale(static_cast<float>(r.scale)) {}

  static constexpr float epsilon = 1e-20f;  // transformers' DeepseekV3TopkRouter

  // scores[experts] of one row of logits, as the softmax or each one's sigmoid; ends with a sync.
  template <class Group>
  SPILLWAY_DEVICE void fill_scores(const Group& group, const float* logits, float* scores) const {
    const bool softmax = score == Routing::Score::softmax;
    float largest = -INFINITY, total = 0;
    for (int e = group.rank(); softmax && e < experts; e += group.size())
      largest = fmaxf(largest, logits[e]);
    if (softmax) largest = group.max(largest);
    for (int e = group.rank(); e < experts; e += group.size()) {
      scores[e] = softmax ? expf(logits[e] - largest) : 1.f / (1.f + expf(-logits[e]));
      total += scores[e];
    }
    if (softmax) total = group.sum(total);
    for (int e = group.rank(); softmax && e < experts; e += group.size())
      scores[e] /= total;
    group.sync();
  }

  // The index of the largest of x[n] that is not taken, the lowest of equal ones; marks it.
  template <class Group>
  SPILLWAY_DEVICE int take_largest(const Group& group, const float* x, int n,
                                   uint32_t* taken) const {
    int best = n;
    float most = -INFINITY;
    for (int i = group.rank(); i < n; i += group.size()) {
      const bool free = (taken[i / 32] >> (i % 32) & 1u) == 0;
      if (!free || (best < n && !(x[i] > most))) continue;
      best = i;
      most = x[i] != x[i] ? -INFINITY : x[i];
    }
    best = group.largest(most, best);
    group.sync();
    if (group.rank() == 0) taken[best / 32] |= 1u << (best % 32);
    group.sync();
    return best;
  }
};

// The experts of a token and their weights; those of the choice `zipf` are there already.
struct RouterToken {
  static constexpr int threads = 32;
  RouterSizes r;
  int expert_words, group_words;  // of a bit each
  const float *logits, *bias;
  int32_t* experts;
  float* weights;

  explicit RouterToken(const KernelCall& call)
      : r(call.attributes().routing),
        expert_words((r.experts + 31) / 32),
        group_words((r.groups + 31) / 32),
        logits(call.input(0).as<float>()),
        bias(call.has_input(1) ? call.input(1).as<float>() : nullptr),
        experts(call.output(0).as<int32_t>()),
        weights(call.output(1).as<float>()) {}

  // Scores, scores with the bias, worth of groups, and a bit for each expert and group.
  int64_t scratch_bytes() const {
    return 4 * (2 * r.experts + r.groups + expert_words + group_words);
  }

  // Outside the best groups x becomes 0. A group is worth its best or the sum of its two best.
  template <class Group>
  SPILLWAY_DEVICE void keep_best_groups(const Group& group, float* x, float* worth,
                                        uint32_t* taken) const {
    const int size = r.experts / r.groups;
    for (int g = group.rank(); g < r.groups; g += group.size()) {
      float best = x[g * size], second = 0;
      for (int i = 1; i < size; ++i) {
        const float value = x[g * size + i], next = value > best ? best : value;
        second = i == 1 || next > second ? next : second;
        best = value > best ? value : best;
      }
      worth[g] = r.group_score == Routing::GroupScore::max ? best : best + second;
    }
    group.sync();
    for (int i = 0; i < r.top_groups; ++i)
      r.take_largest(group, worth, r.groups, taken);
    for (int e = group.rank(); e < r.experts; e += group.size()) {
      const int g = e / size;
      if ((taken[g / 32] >> (g % 32) & 1u) == 0) x[e] = 0;
    }
    group.sync();
  }

  template <class Group>
  SPILLWAY_DEVICE void choose(const Group& group, int64_t token, float* x, float* worth,
                              uint32_t* taken) const {
    const bool by_scores = r.choice == Routing::Choice::model;
    for (int i = group.rank(); i < expert_words + group_words; i += group.size())
      taken[i] = 0;
    group.sync();
    if (by_scores && r.top_groups < r.groups)
      keep_best_groups(group, x, worth, taken + expert_words);
    for (int j = 0; j < r.top_k && r.choice != Routing::Choice::zipf; ++j) {
      int64_t expert = r.choice == Routing::Choice::one ? j : (token * r.top_k + j) % r.experts;
      if (by_scores) expert = r.take_largest(group, x, r.experts, taken);
      if (group.rank() == 0) experts[token * r.top_k + j] = static_cast<int32_t>(expert);
    }
    group.sync();
  }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t token) const {
    auto* scores = reinterpret_cast<float*>(group.scratch());
    float *x = scores + r.experts, *worth = x + r.experts;
    auto* taken = reinterpret_cast<uint32_t*>(worth + r.groups);
    r.fill_scores(group, logits + token * r.experts, scores);
    float lost = 0;
    for (int e = group.rank(); e < r.experts; e += group.size()) {
      x[e] = scores[e] + (bias == nullptr ? 0.f : bias[e]);
      lost = x[e] != x[e] ? 1.f : lost;
    }
    lost = group.max(lost);
    choose(group, token, x, worth, taken);
    const int32_t* chosen = experts + token * r.top_k;
    float total = RouterSizes::epsilon;
    for (int j = 0; j < r.top_k; ++j)
      total += scores[chosen[j]];
    const float scale = r.scale / (r.normalise ? total : 1.f);
    for (int j = group.rank(); j < r.top_k; j += group.size())
      weights[token * r.top_k + j] = lost != 0 ? NAN : scores[chosen[j]] * scale;
  }
};

// The choice `zipf`, a token a thread: draws without replacement, with shares from the host so that
// they are those of harness/ops/router.cpp to the last bit.
struct ZipfDraw : NoScratch {
  static constexpr int threads = 32;
  static constexpr int most_experts = 448;
  int64_t tokens;
  int experts, top_k;
  uint64_t seed;
  int32_t* out;
  double shares[most_experts];

  explicit ZipfDraw(const KernelCall& call)
      : tokens(call.input(0).shape[0]),
        experts(static_cast<int>(call.attributes().routing.experts)),
        top_k(static_cast<int>(call.attributes().routing.top_k)),
        seed(call.attributes().routing.seed),
        out(call.output(0).as<int32_t>()),
        shares{} {
    check(experts <= most_experts, "draws from ", experts, " experts, at most ", most_experts,
          " are possible");
    for (int e = 0; e < experts; ++e)
      shares[e] = std::pow(static_cast<double>(e + 1), -call.attributes().routing.zipf);
  }

  // The n-th number (from 0) of Steele, Lea and Flood's SplitMix64, as one of [0, 1).
  SPILLWAY_DEVICE double random_number(uint64_t n) const {
    uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
  SPILLWAY_DEVICE static bool among(const int32_t* chosen, int count, int expert) {
    for (int j = 0; j < count; ++j)
      if (chosen[j] == expert) return true;
    return false;
  }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t token = tile * group.size() + group.rank();
    if (token >= tokens) return;
    int32_t* chosen = out + token * top_k;
    for (int j = 0; j < top_k; ++j) {
      double left = 0;
      for (int e = 0; e < experts; ++e)
        if (!among(chosen, j, e)) left += shares[e];
      double point = product_apart(left, random_number(static_cast<uint64_t>(token) * top_k + j));
      int32_t last = 0;
      for (int e = 0; e < experts && point >= 0; ++e) {
        if (shares[e] == 0 || among(chosen, j, e)) continue;
        last = e;
        point -= shares[e];
      }
      chosen[j] = last;
    }
  }
};

struct RouterKernel {
  static constexpr OpKind kind = OpKind::router;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const int64_t tokens = call.input(0).shape[0];
    if (call.attributes().routing.choice == Routing::Choice::zipf)
      launch(ZipfDraw(call), parts_of(tokens, ZipfDraw::threads));
    launch(RouterToken(call), tokens);
  }
};

// As harness/ops/router_backward.cpp: the gradient of a token's weights for its logits.
struct RouterBackwardToken {
  static constexpr int threads = 32;
  RouterSizes r;
  const float* logits;
  const int32_t* experts;
  const float* d_weights;
  View d_logits;

  explicit RouterBackwardToken(const KernelCall& call)
      : r(call.attributes().routing),
        logits(call.input(0).as<float>()),
        experts(call.input(1).as<int32_t>()),
        d_weights(call.input(2).as<float>()),
        d_logits(view_of(call.output(0))) {}
  int64_t scratch_bytes() const { return 8 * int64_t{r.experts}; }

  // d[experts]: the gradient of every score.
  template <class Group>
  SPILLWAY_DEVICE void score_gradients(const Group& group, int64_t token, const float* scores,
                                       float* d) const {
    const int32_t* chosen = experts + token * r.top_k;
    const float* dw = d_weights + token * r.top_k;
    float total = RouterSizes::epsilon, along = 0;
    for (int j = 0; j < r.top_k; ++j) {
      const bool valid = chosen[j] >= 0 && chosen[j] < r.experts;
      const float score = valid ? scores[chosen[j]] : NAN;
      total += score;
      along += dw[j] * score;
    }
    const float scale = r.scale / (r.normalise ? total : 1.f);
    const float mean = r.normalise ? along / total : 0.f;
    for (int e = group.rank(); e < r.experts; e += group.size()) {
      d[e] = 0;
      for (int j = 0; j < r.top_k; ++j)
        if (chosen[j] == e) d[e] += scale * (dw[j] - mean);
    }
    group.sync();
  }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t token) const {
    auto* scores = reinterpret_cast<float*>(group.scratch());
    float* d = scores + r.experts;
    r.fill_scores(group, logits + token * r.experts, scores);
    score_gradients(group, token, scores, d);
    const bool softmax = r.score == Routing::Score::softmax;
    float along = 0;
    for (int e = group.rank(); softmax && e < r.experts; e += group.size())
      along += d[e] * scores[e];
    if (softmax) along = group.sum(along);
    for (int e = group.rank(); e < r.experts; e += group.size()) {
      const float s = scores[e];
      store_one(d_logits, token * r.experts + e, softmax ? s * (d[e] - along) : d[e] * s * (1 - s));
    }
  }
};

struct RouterBackwardKernel {
  static constexpr OpKind kind = OpKind::router_backward;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    launch(RouterBackwardToken(call), call.input(0).shape[0]);
  }
};

}  // namespace spillway
