// Scores of one token's router row; shared by router and router_backward.
#pragma once

#include "harness/ops/floats.h"

namespace spillway {

// x[n], in row_scratch, holds logits and becomes their scores: the softmax, or each one's sigmoid.
template <class I>
SPILLWAY_INLINE void router_scores(Routing::Score score, int64_t n, float* x, I isa) {
  if (score == Routing::Score::sigmoid) {
    for (int64_t e = 0; e < n; ++e)
      x[e] = sigmoid(x[e]);
    return;
  }
  const float largest = maximum(n, x, x[0], isa);
  for (int64_t e = 0; e < n; ++e)
    x[e] = exp_fast(x[e] - largest);
  const float total = sum(n, x, isa);
  for (int64_t e = 0; e < n; ++e)
    x[e] /= total;
}

// Added to the sum that weights are divided by (transformers' DeepseekV3TopkRouter).
inline constexpr float router_epsilon = 1e-20f;

// Why E experts and k of them for each token do not fit the routing; empty where they do.
std::string check_routing(const Routing& routing, int64_t experts, int64_t top_k);

}  // namespace spillway
