// swiglu: act = silu(gate) * up, elementwise, silu(g) = g * sigmoid(g).
//   swiglu          {gate[*], up[*]} -> {act[*]}
//   swiglu_backward {gate[*], up[*], dact[*]} -> {dgate[*], dup[*]}
// Outputs may be any of the inputs.
#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

constexpr int64_t block = 8 * chunk;

std::string check_forward(const Program& program, const Op& op) {
  return match(program, op, "gate[*]:x up[*]:x -> act[*]:x").error;
}

std::string check_backward(const Program& program, const Op& op) {
  return match(program, op, "gate[*]:x up[*]:x dact[*]:x -> dgate[*]:x dup[*]:x").error;
}

OpCost cost_swiglu(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

void run_forward(const OpCall& call, ThreadPool& pool) {
  for_blocks(pool, call.outputs[0].elements(), block, [&](int64_t first, int64_t count) {
    simd([&](auto) SPILLWAY_SIMD {
      float gate[chunk], up[chunk];
      for (int64_t at = first, end = first + count; at < end; at += chunk) {
        const int64_t n = std::min(chunk, end - at);
        load(call.inputs[0], at, n, gate);
        load(call.inputs[1], at, n, up);
        for (int64_t i = 0; i < n; ++i)
          up[i] *= gate[i] * sigmoid(gate[i]);
        store(call.outputs[0], at, n, up);
      }
    });
  });
}

// silu'(g) = s (1 + g (1 - s)) with s = sigmoid(g).
void run_backward(const OpCall& call, ThreadPool& pool) {
  for_blocks(pool, call.outputs[0].elements(), block, [&](int64_t first, int64_t count) {
    simd([&](auto) SPILLWAY_SIMD {
      float gate[chunk], up[chunk], dact[chunk];
      for (int64_t at = first, end = first + count; at < end; at += chunk) {
        const int64_t n = std::min(chunk, end - at);
        load(call.inputs[0], at, n, gate);
        load(call.inputs[1], at, n, up);
        load(call.inputs[2], at, n, dact);
        for (int64_t i = 0; i < n; ++i) {
          const float g = gate[i], s = sigmoid(g), d = dact[i];
          gate[i] = d * up[i] * s * (1.f + g * (1.f - s));
          up[i] = d * g * s;
        }
        store(call.outputs[0], at, n, gate);
        store(call.outputs[1], at, n, up);
      }
    });
  });
}

}  // namespace

const OpInfo swiglu_info = {OpKind::swiglu, "swiglu",    Lane::compute, "act = silu(gate) * up",
                            check_forward,  cost_swiglu, run_forward};
const OpInfo swiglu_backward_info = {OpKind::swiglu_backward,
                                     "swiglu_backward",
                                     Lane::compute,
                                     "gradients of swiglu for gate and up",
                                     check_backward,
                                     cost_swiglu,
                                     run_backward};

}  // namespace spillway
