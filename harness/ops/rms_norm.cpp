// rms_norm: y = x / sqrt(mean(x^2) + epsilon) * w, row by row, or in each row by groups as wide as
// w (a norm of every head).
//   rms_norm          {x[T,G*D], w[D]} -> {y[T,G*D]}
//   rms_norm_backward {x[T,G*D], w[D], dy[T,G*D], (residual[T,G*D])} -> {dx[T,G*D], dw[D]}
// dx = residual + gradient, and may be the residual's own tensor. The root is computed again from
// x.
#include <cmath>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/column_sums.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

std::string check_groups(const Signature& s) {
  if (!s.error.empty() || s["W"] % s["D"] == 0) return s.error;
  return text("rows of ", s["W"], " do not divide into groups of ", s["D"], ", the width of w");
}

std::string check_forward(const Program& program, const Op& op) {
  return check_groups(match(program, op, "x[T,W]:x w[D]:float -> y[T,W]:x"));
}

std::string check_backward(const Program& program, const Op& op) {
  return check_groups(match(
      program, op, "x[T,W]:x w[D]:float dy[T,W]:x (residual[T,W]:x) -> dx[T,W]:x dw[D]:float"));
}

OpCost cost_norm(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

// A group is a row: [T, G * D] and [T * G, D] are the same memory.
struct Size {
  int64_t rows, width;
  float epsilon;
};

Size size_of(const OpCall& call) {
  const int64_t width = call.inputs[1].shape[0];
  return {call.inputs[0].elements() / width, width,
          static_cast<float>(call.op->attributes.epsilon)};
}

// 1 / sqrt(mean(x^2) + epsilon) of one row.
template <class I>
SPILLWAY_INLINE float inverse_rms(const float* x, const Size& size, I isa) {
  return 1.f /
         std::sqrt(dot(size.width, x, x, isa) / static_cast<float>(size.width) + size.epsilon);
}

void run_forward(const OpCall& call, ThreadPool& pool) {
  const Size size = size_of(call);
  for_blocks(pool, size.rows, rows_per_block(size.width), [&](int64_t first, int64_t count) {
    simd([&](auto isa) SPILLWAY_SIMD {
      float *x = row_scratch(0, size.width), *w = row_scratch(1, size.width);
      load(call.inputs[1], 0, size.width, w);
      for (int64_t t = first; t < first + count; ++t) {
        load(call.inputs[0], t * size.width, size.width, x);
        const float r = inverse_rms(x, size, isa);
        for (int64_t d = 0; d < size.width; ++d)
          x[d] = x[d] * r * w[d];
        store(call.outputs[0], t * size.width, size.width, x);
      }
    });
  });
}

// With r the inverse root and g = dy * w:  dx = r (g - x r^2 mean(g x)),  dw += dy x r.
template <class I>
SPILLWAY_INLINE void backward_row(const OpCall& call, const Size& size, int64_t t, const float* w,
                                  float* dw, I isa) {
  const int64_t width = size.width;
  float *x = row_scratch(1, width), *g = row_scratch(2, width), *residual = row_scratch(3, width);
  load(call.inputs[0], t * width, width, x);
  load(call.inputs[2], t * width, width, g);
  const float r = inverse_rms(x, size, isa);
  for (int64_t d = 0; d < width; ++d) {
    dw[d] += g[d] * x[d] * r;
    g[d] *= w[d];
  }
  const float mean = dot(width, g, x, isa) / static_cast<float>(width);
  const float along_x = r * r * r * mean;
  if (call.inputs.size() > 3) {
    load(call.inputs[3], t * width, width, residual);
    for (int64_t d = 0; d < width; ++d)
      g[d] = residual[d] + (r * g[d] - along_x * x[d]);
  } else {
    for (int64_t d = 0; d < width; ++d)
      g[d] = r * g[d] - along_x * x[d];
  }
  store(call.outputs[0], t * width, width, g);
}

void run_backward(const OpCall& call, ThreadPool& pool) {
  const Size size = size_of(call);
  sum_columns(pool, size.rows, size.width, call.outputs[1],
              [&](int64_t first, int64_t count, float* dw) {
                simd([&](auto isa) SPILLWAY_SIMD {
                  float* w = row_scratch(0, size.width);
                  load(call.inputs[1], 0, size.width, w);
                  for (int64_t t = first; t < first + count; ++t)
                    backward_row(call, size, t, w, dw, isa);
                });
              });
}

}  // namespace

const OpInfo rms_norm_info = {OpKind::rms_norm, "rms_norm", Lane::compute, "y = x / rms(x) * w",
                              check_forward,    cost_norm,  run_forward};
const OpInfo rms_norm_backward_info = {OpKind::rms_norm_backward,
                                       "rms_norm_backward",
                                       Lane::compute,
                                       "gradients of rms_norm, onto a residual",
                                       check_backward,
                                       cost_norm,
                                       run_backward};

}  // namespace spillway
