// What the ops of the dropless path mean, in double precision by plain loops: routers, permutation,
// grouped products, combination.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/op_reference.h"

namespace spillway {
namespace {

Values scores_of(const Routing& r, const Values& logits, int64_t t) {
  Values scores;
  double sum = 0;
  for (int64_t e = 0; e < r.experts; ++e) {
    const double l = at(logits, t * r.experts + e);
    scores.push_back(r.score == Routing::Score::sigmoid ? 1 / (1 + std::exp(-l)) : std::exp(l));
    sum += scores.back();
  }
  for (double& score : scores)
    score /= r.score == Routing::Score::softmax ? sum : 1;
  return scores;
}

// Indices by falling value, equal ones by rising index.
std::vector<size_t> ranking(const Values& x) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
  return order;
}

// DeepseekV3TopkRouter.get_topk_indices: what is outside the best groups counts as 0.
std::vector<size_t> model_choice(const Routing& r, Values x) {
  const auto size = static_cast<size_t>(r.experts / r.groups);
  Values groups;
  for (size_t g = 0; g * size < x.size(); ++g) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(g * size);
    Values members(begin, begin + static_cast<std::ptrdiff_t>(size));
    std::sort(members.rbegin(), members.rend());
    const bool two = r.group_score == Routing::GroupScore::top2_sum && size > 1;
    groups.push_back(members[0] + (two ? members[1] : 0));
  }
  const std::vector<size_t> best = ranking(groups);
  for (size_t i = static_cast<size_t>(r.top_groups); i < best.size(); ++i)
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(best[i] * size), size, 0.0);
  return ranking(x);
}

void router(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const Routing& r = c.attributes.routing;
  for (int64_t t = 0; t < c.inputs[0].shape[0]; ++t) {
    const Values scores = scores_of(r, in[0], t);
    Values biased = scores;
    for (size_t e = 0; in.size() > 1 && e < biased.size(); ++e)
      biased[e] += in[1][e];
    const std::vector<size_t> best = model_choice(r, biased);
    double sum = 0;
    for (int64_t j = 0; j < r.top_k; ++j) {
      double& expert = at(out[0], t * r.top_k + j);
      expert = static_cast<double>(best[static_cast<size_t>(j)]);
      if (r.choice == Routing::Choice::one) expert = static_cast<double>(j);
      if (r.choice == Routing::Choice::uniform)
        expert = static_cast<double>((t * r.top_k + j) % r.experts);
      at(out[1], t * r.top_k + j) = at(scores, static_cast<int64_t>(expert)) * r.scale;
      sum += at(scores, static_cast<int64_t>(expert));
    }
    for (int64_t j = 0; r.normalise && j < r.top_k; ++j)
      at(out[1], t * r.top_k + j) /= sum;
  }
}

// By the chain rule, one Jacobian after the other.
void router_backward(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const Routing& r = c.attributes.routing;
  for (int64_t t = 0; t < c.inputs[0].shape[0]; ++t) {
    const Values s = scores_of(r, in[0], t);
    const auto taken = [&](int64_t j) { return index_at(in[1], t * r.top_k + j); };
    double sum = 0;
    for (int64_t j = 0; j < r.top_k; ++j)
      sum += at(s, taken(j));
    Values ds(s.size(), 0.0);
    for (int64_t j = 0; j < r.top_k; ++j) {
      for (int64_t i = 0; i < r.top_k; ++i) {  // dw_j / ds_i
        const double same = i == j ? 1 : 0;
        const double slope = r.normalise ? (same - at(s, taken(j)) / sum) / sum : same;
        at(ds, taken(i)) += at(in[2], t * r.top_k + j) * r.scale * slope;
      }
    }
    for (int64_t e = 0; e < r.experts; ++e) {
      for (int64_t f = 0; f < r.experts; ++f) {  // ds_f / dl_e
        const double same = e == f ? 1 : 0;
        const bool softmax = r.score == Routing::Score::softmax;
        const double slope =
            softmax ? at(s, f) * (same - at(s, e)) : same * at(s, e) * (1 - at(s, e));
        at(out[0], t * r.experts + e) += at(ds, f) * slope;
      }
    }
  }
}

void route_sort(const std::vector<Values>& in, std::vector<Values>& out) {
  Values falling(in[0].size());
  std::transform(in[0].begin(), in[0].end(), falling.begin(), [](double e) { return -e; });
  const std::vector<size_t> order = ranking(falling);
  for (size_t row = 0; row < order.size(); ++row) {
    out[0][row] = static_cast<double>(order[row]);
    out[1][order[row]] = static_cast<double>(row);
  }
  for (size_t e = 0; e < out[2].size(); ++e) {
    const auto before = [&](double expert) { return expert < static_cast<double>(e); };
    out[2][e] = static_cast<double>(std::count_if(in[0].begin(), in[0].end(), before));
  }
}

void permute(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const bool backward = c.kind == OpKind::permute_backward;
  const int64_t width = c.inputs[0].shape[1];
  const int64_t slots = static_cast<int64_t>(in[1].size());
  const int64_t tokens = backward ? c.outputs[0].shape[0] : c.inputs[0].shape[0];
  for (int64_t i = 0; i < slots; ++i) {
    for (int64_t d = 0; d < width; ++d) {
      if (backward) {
        at(out[0], i / (slots / tokens) * width + d) += at(in[0], index_at(in[1], i) * width + d);
      } else {
        at(out[0], i * width + d) = at(in[0], index_at(in[1], i) / (slots / tokens) * width + d);
      }
    }
  }
}

void combine(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const int64_t width = c.inputs[0].shape[1];
  const bool backward = c.kind == OpKind::combine_backward;
  const Values &y = in[backward ? 1 : 0], &position = in[backward ? 2 : 1],
               &weights = in[backward ? 3 : 2];
  const int64_t k = c.inputs[backward ? 2 : 1].shape[1];
  for (int64_t i = 0; i < static_cast<int64_t>(position.size()); ++i) {
    for (int64_t d = 0; d < width; ++d) {
      const int64_t token = i / k * width + d, row = index_at(position, i) * width + d;
      if (backward) {
        at(out[0], row) = at(in[0], token) * at(weights, i);
        at(out[1], i) += at(in[0], token) * at(y, row);
      } else {
        at(out[0], token) += at(y, row) * at(weights, i);
      }
    }
  }
}

void grouped_matmul(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const bool gradient = c.attributes.transpose_a, forward = c.attributes.transpose_b;
  const Shape& three = gradient ? c.outputs[0].shape : c.inputs[1].shape;
  const int64_t n = three[1], k = three[2], even = c.inputs[0].shape[0] / three[0];
  const auto first = [&](int64_t e) { return in.size() > 2 ? index_at(in[2], e) : e * even; };
  for (int64_t e = 0; e < three[0]; ++e) {
    for (int64_t row = first(e); row < first(e + 1); ++row) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t p = 0; p < k; ++p) {
          const int64_t weight = (e * n + i) * k + p;
          if (gradient) at(out[0], weight) += at(in[0], row * n + i) * at(in[1], row * k + p);
          if (forward) at(out[0], row * n + i) += at(in[0], row * k + p) * at(in[1], weight);
          if (!gradient && !forward)
            at(out[0], row * k + p) += at(in[0], row * n + i) * at(in[1], weight);
        }
      }
    }
  }
}

}  // namespace

bool routing_reference(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  switch (c.kind) {
    case OpKind::router:
      router(c, in, out);
      return true;
    case OpKind::router_backward:
      router_backward(c, in, out);
      return true;
    case OpKind::route_sort:
      route_sort(in, out);
      return true;
    case OpKind::permute:
    case OpKind::permute_backward:
      permute(c, in, out);
      return true;
    case OpKind::grouped_matmul:
      grouped_matmul(c, in, out);
      return true;
    case OpKind::combine:
    case OpKind::combine_backward:
      combine(c, in, out);
      return true;
    default:
      return false;
  }
}

}  // namespace spillway
