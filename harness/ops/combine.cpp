// combine: the weighted sum of what a token's k experts gave.
//   combine          {y[R,D], position[T,k] i32, weights[T,k] f32} -> {out[T,D]}:
//                    out[t] = sum over j, in order, of weights[t,j] y[position[t,j]]
//   combine_backward {dout[T,D], y[R,D], position, weights} -> {dy[R,D], dweights[T,k] f32}
// R = k T and position is a permutation of the rows (route_sort): each row of dy is written once.
#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

std::string check_rows(const Op& op, const Signature& s) {
  if (!s.error.empty()) return s.error;
  if (s["R"] != s["T"] * s["k"])
    return text("y has ", s["R"], " rows for ", s["T"], " tokens, expected ", s["k"], " a token");
  return require_distinct(op);
}

std::string check_forward(const Program& program, const Op& op) {
  return check_rows(
      op, match(program, op, "y[R,D]:x position[T,k]:i32 weights[T,k]:f32 -> out[T,D]:x"));
}

std::string check_backward(const Program& program, const Op& op) {
  return check_rows(op, match(program, op,
                              "dout[T,D]:x y[R,D]:x position[T,k]:i32 weights[T,k]:f32 -> "
                              "dy[R,D]:x dweights[T,k]:f32"));
}

OpCost cost_combine(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

int64_t row_of(const int32_t* position, int64_t slot, int64_t rows) {
  check(position[slot] >= 0 && position[slot] < rows, "row ", position[slot], " is outside the ",
        rows, " routed rows");
  return position[slot];
}

void run_forward(const OpCall& call, ThreadPool& pool) {
  const Buffer &y = call.inputs[0], &out = call.outputs[0];
  const int64_t tokens = out.shape[0], width = out.shape[1], k = call.inputs[1].shape[1];
  const int32_t* position = call.inputs[1].as<int32_t>();
  const float* weights = call.inputs[2].as<float>();
  for_blocks(pool, tokens, rows_per_block(width * k), [&](int64_t first, int64_t count) {
    simd([&](auto) SPILLWAY_SIMD {
      float *row = row_scratch(0, width), *sum = row_scratch(1, width);
      for (int64_t t = first; t < first + count; ++t) {
        std::fill_n(sum, width, 0.f);
        for (int64_t slot = t * k; slot < (t + 1) * k; ++slot) {
          load(y, row_of(position, slot, y.shape[0]) * width, width, row);
          for (int64_t d = 0; d < width; ++d)
            sum[d] += weights[slot] * row[d];
        }
        store(out, t * width, width, sum);
      }
    });
  });
}

void run_backward(const OpCall& call, ThreadPool& pool) {
  const Buffer &dout = call.inputs[0], &y = call.inputs[1];
  const int64_t tokens = dout.shape[0], width = dout.shape[1], k = call.inputs[2].shape[1];
  const int32_t* position = call.inputs[2].as<int32_t>();
  const float* weights = call.inputs[3].as<float>();
  float* d_weights = call.outputs[1].as<float>();
  for_blocks(pool, tokens, rows_per_block(width * k), [&](int64_t first, int64_t count) {
    simd([&](auto isa) SPILLWAY_SIMD {
      float *d = row_scratch(0, width), *row = row_scratch(1, width);
      for (int64_t t = first; t < first + count; ++t) {
        load(dout, t * width, width, d);
        for (int64_t slot = t * k; slot < (t + 1) * k; ++slot) {
          const int64_t at = row_of(position, slot, y.shape[0]) * width;
          load(y, at, width, row);
          d_weights[slot] = dot(width, d, row, isa);
          for (int64_t i = 0; i < width; ++i)
            row[i] = weights[slot] * d[i];
          store(call.outputs[0], at, width, row);
        }
      }
    });
  });
}

}  // namespace

const OpInfo combine_info = {
    OpKind::combine, "combine",    Lane::compute, "weighted sum of a token's rows",
    check_forward,   cost_combine, run_forward};
const OpInfo combine_backward_info = {OpKind::combine_backward,
                                      "combine_backward",
                                      Lane::compute,
                                      "gradients of combine for rows and weights",
                                      check_backward,
                                      cost_combine,
                                      run_backward};

}  // namespace spillway
