// adamw: one optimizer step over whole stacked tensors (torch.optim.AdamW), one pass over memory.
//   {w[*], m[*], v[*], g[*]} -> {w[*], m[*], v[*], (copy[*])}; each f32 or bf16, the arithmetic
//   fp32.
// Attributes: learning_rate, beta1, beta2, adam_epsilon, weight_decay. Bias correction counts from
// step + 1.
#include <cmath>

#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

std::string check_adamw(const Program& program, const Op& op) {
  return match(
             program, op,
             "w[*]:w m[*]:m v[*]:v g[*]:float -> new_w[*]:w new_m[*]:m new_v[*]:v (copy[*]:float)")
      .error;
}

OpCost cost_adamw(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

struct Factors {
  float decay, beta1, beta2, rest1, rest2, step_size, inverse_root2, epsilon;
};

// torch.optim.AdamW: w -= lr * wd * w;  w -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) +
// eps).
Factors factors_of(const Attributes& a, int64_t step) {
  const double t = static_cast<double>(step + 1);
  const double correction1 = 1 - std::pow(a.beta1, t), correction2 = 1 - std::pow(a.beta2, t);
  return {static_cast<float>(1 - a.learning_rate * a.weight_decay),
          static_cast<float>(a.beta1),
          static_cast<float>(a.beta2),
          static_cast<float>(1 - a.beta1),
          static_cast<float>(1 - a.beta2),
          static_cast<float>(a.learning_rate / correction1),
          static_cast<float>(1 / std::sqrt(correction2)),
          static_cast<float>(a.adam_epsilon)};
}

void run_adamw(const OpCall& call, ThreadPool& pool) {
  const Factors f = factors_of(call.op->attributes, call.step);
  for_blocks(pool, call.outputs[0].elements(), 32 * chunk, [&](int64_t first, int64_t count) {
    simd([&](auto) SPILLWAY_SIMD {
      float w[chunk], m[chunk], v[chunk], g[chunk];
      for (int64_t at = first, end = first + count; at < end; at += chunk) {
        const int64_t n = std::min(chunk, end - at);
        load(call.inputs[0], at, n, w);
        load(call.inputs[1], at, n, m);
        load(call.inputs[2], at, n, v);
        load(call.inputs[3], at, n, g);
        for (int64_t i = 0; i < n; ++i) {
          m[i] = f.beta1 * m[i] + f.rest1 * g[i];
          v[i] = f.beta2 * v[i] + f.rest2 * g[i] * g[i];
          w[i] =
              f.decay * w[i] - f.step_size * m[i] / (std::sqrt(v[i]) * f.inverse_root2 + f.epsilon);
        }
        store(call.outputs[0], at, n, w);
        store(call.outputs[1], at, n, m);
        store(call.outputs[2], at, n, v);
        if (call.outputs.size() > 3) store(call.outputs[3], at, n, w);
      }
    });
  });
}

}  // namespace

const OpInfo adamw_info = {
    OpKind::adamw, "adamw",    Lane::compute, "AdamW update of weights and moments",
    check_adamw,   cost_adamw, run_adamw};

}  // namespace spillway
