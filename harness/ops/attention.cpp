// attention: causal softmax(scale Q K^T) V for each head; query head h reads key head h / (heads /
// kv_heads).
//   attention          {q[T,H*d], k[T,K*d], v[T,K*e]} -> {o[T,H*e], lse[T,H] f32}, lse =
//   log(sum(exp(scores))) attention_backward {q, k, v, o, lse, do} -> {dq, dk, dv}
// Attributes: batch, seq, heads (H), kv_heads (K), head_dim (d), value_dim (e; 0 for head_dim),
// scale (0 for 1 / sqrt(head_dim)); T = batch * seq.
#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/attention_kernels.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

std::string check_sizes(const Op& op, const Signature& s) {
  const Attributes& a = op.attributes;
  if (!s.error.empty()) return s.error;
  const std::string positive = require_positive({{"batch", a.batch},
                                                 {"seq", a.seq},
                                                 {"heads", a.heads},
                                                 {"kv_heads", a.kv_heads},
                                                 {"head_dim", a.head_dim}});
  if (!positive.empty()) return positive;
  if (a.heads % a.kv_heads != 0)
    return text(a.heads, " heads are not a multiple of ", a.kv_heads, " kv_heads");
  if (a.value_dim < 0) return text("attribute value_dim is ", a.value_dim, ", expected at least 0");
  if (a.scale < 0) return text("attribute scale is ", a.scale, ", expected at least 0");
  if (s["T"] != a.batch * a.seq)
    return text("has ", s["T"], " rows, expected batch * seq = ", a.batch * a.seq);
  if (s["Q"] != a.heads * a.head_dim)
    return text("q has width ", s["Q"], ", expected heads * head_dim");
  if (s["K"] != a.kv_heads * a.head_dim)
    return text("k has width ", s["K"], ", expected kv_heads * head_dim");
  if (s["V"] != a.kv_heads * value_dim_of(a))
    return text("v has width ", s["V"], ", expected kv_heads * value_dim");
  if (s["O"] != a.heads * value_dim_of(a))
    return text("o has width ", s["O"], ", expected heads * value_dim");
  if (s["H"] != a.heads) return text("lse has width ", s["H"], ", expected heads = ", a.heads);
  return require_distinct(op);
}

std::string check_forward(const Program& program, const Op& op) {
  return check_sizes(op, match(program, op, "q[T,Q]:x k[T,K]:x v[T,V]:x -> o[T,O]:x lse[T,H]:f32"));
}

std::string check_backward(const Program& program, const Op& op) {
  return check_sizes(op, match(program, op,
                               "q[T,Q]:x k[T,K]:x v[T,V]:x o[T,O]:x lse[T,H]:f32 do[T,O]:x -> "
                               "dq[T,Q]:x dk[T,K]:x dv[T,V]:x"));
}

// Multiply-adds of one causal [seq, seq] product over all heads, as FLOPs: 2 b s^2 H dim / 2.
double product_flops(const Attributes& a, int64_t dim) {
  return static_cast<double>(a.batch) * static_cast<double>(a.seq) * static_cast<double>(a.seq) *
         static_cast<double>(a.heads * dim);
}

double forward_flops(const Attributes& a) {
  return product_flops(a, a.head_dim) + product_flops(a, value_dim_of(a));
}

OpCost cost_forward(const Program& program, const Op& op) {
  return {.attention_flops = forward_flops(op.attributes), .bytes = touched_bytes(program, op)};
}

// Four products count (twice the forward); the scores, computed again, are the fifth.
OpCost cost_backward(const Program& program, const Op& op) {
  return {.attention_flops = 2 * forward_flops(op.attributes),
          .attention_extra_flops = product_flops(op.attributes, op.attributes.head_dim),
          .bytes = touched_bytes(program, op)};
}

}  // namespace

const OpInfo attention_info = {
    OpKind::attention, "attention",  Lane::compute,    "causal attention, grouped key heads",
    check_forward,     cost_forward, attention_forward};
const OpInfo attention_backward_info = {OpKind::attention_backward,
                                        "attention_backward",
                                        Lane::compute,
                                        "gradients of attention for q, k and v",
                                        check_backward,
                                        cost_backward,
                                        attention_backward};

}  // namespace spillway
