// router_backward {logits[T,E] f32, experts[T,k] i32, dweights[T,k] f32} -> {dlogits[T,E]}
// Which experts are taken has no gradient (nor has the bias). With s the scores, r_j those of the
// experts taken, R = sum of r + 1e-20:
//   normalised  w_j = scale r_j / R,  dr_j = scale (dw_j - sum_i dw_i r_i / R) / R
//   else        w_j = scale r_j,      dr_j = scale dw_j
//   softmax     dl_e = s_e (dr_e - sum_i dr_i s_i);  sigmoid  dl_e = dr_e s_e (1 - s_e)
// dr_e is 0 for experts not taken.
// Attributes: routing.
#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/operands.h"
#include "harness/ops/router.h"

namespace spillway {
namespace {

std::string check_router(const Program& program, const Op& op) {
  const Signature s = match(
      program, op, "logits[T,E]:f32 experts[T,k]:i32 dweights[T,k]:f32 -> dlogits[T,E]:float");
  return s.error.empty() ? check_routing(op.attributes.routing, s["E"], s["k"]) : s.error;
}

OpCost cost_router(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

// d[experts] = gradient of every score.
void score_gradients(const Routing& r, const float* scores, const int32_t* experts,
                     const float* d_weights, float* d) {
  std::fill_n(d, r.experts, 0.f);
  float total = router_epsilon, along = 0;
  for (int64_t j = 0; j < r.top_k; ++j) {
    check(experts[j] >= 0 && experts[j] < r.experts, "expert ", experts[j], " is outside the ",
          r.experts, " experts");
    total += scores[experts[j]];
    along += d_weights[j] * scores[experts[j]];
  }
  const float scale = static_cast<float>(r.scale) / (r.normalise ? total : 1.f);
  const float mean = r.normalise ? along / total : 0.f;
  for (int64_t j = 0; j < r.top_k; ++j)
    d[experts[j]] += scale * (d_weights[j] - mean);
}

void run_router(const OpCall& call, ThreadPool& pool) {
  const Routing& r = call.op->attributes.routing;
  const auto one_row = [&](int64_t t, auto isa) SPILLWAY_SIMD {
    float *scores = row_scratch(0, r.experts), *d = row_scratch(1, r.experts);
    load(call.inputs[0], t * r.experts, r.experts, scores);
    router_scores(r.score, r.experts, scores, isa);
    score_gradients(r, scores, call.inputs[1].as<int32_t>() + t * r.top_k,
                    call.inputs[2].as<float>() + t * r.top_k, d);
    const bool softmax = r.score == Routing::Score::softmax;
    const float along = softmax ? dot(r.experts, d, scores, isa) : 0.f;
    for (int64_t e = 0; e < r.experts; ++e)
      d[e] = softmax ? scores[e] * (d[e] - along) : d[e] * scores[e] * (1.f - scores[e]);
    store(call.outputs[0], t * r.experts, r.experts, d);
  };
  for_blocks(pool, call.inputs[0].shape[0], rows_per_block(r.experts * 8),
             [&](int64_t first, int64_t count) {
               simd([&](auto isa) SPILLWAY_SIMD {
                 for (int64_t t = first; t < first + count; ++t)
                   one_row(t, isa);
               });
             });
}

}  // namespace

const OpInfo router_backward_info = {OpKind::router_backward,
                                     "router_backward",
                                     Lane::compute,
                                     "gradient of router for its logits",
                                     check_router,
                                     cost_router,
                                     run_router};

}  // namespace spillway
