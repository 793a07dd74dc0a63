// add_bias:      {x[T,N], bias[N]} -> {y[T,N]}: y = x + bias in every row; y may be x.
// bias_backward: {dy[T,N]} -> {dbias[N]}: sums of columns, blocks of rows in their order.
#include "harness/ops/all.h"
#include "harness/ops/column_sums.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

std::string check_add(const Program& program, const Op& op) {
  return match(program, op, "x[T,N]:x bias[N]:float -> y[T,N]:x").error;
}

std::string check_backward(const Program& program, const Op& op) {
  return match(program, op, "dy[T,N]:x -> dbias[N]:float").error;
}

OpCost cost_bias(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

void run_add(const OpCall& call, ThreadPool& pool) {
  const int64_t rows = call.inputs[0].shape[0], width = call.inputs[0].shape[1];
  for_blocks(pool, rows, rows_per_block(width), [&](int64_t first, int64_t count) {
    simd([&](auto) SPILLWAY_SIMD {
      float *x = row_scratch(0, width), *bias = row_scratch(1, width);
      load(call.inputs[1], 0, width, bias);
      for (int64_t t = first; t < first + count; ++t) {
        load(call.inputs[0], t * width, width, x);
        for (int64_t d = 0; d < width; ++d)
          x[d] += bias[d];
        store(call.outputs[0], t * width, width, x);
      }
    });
  });
}

void run_backward(const OpCall& call, ThreadPool& pool) {
  const int64_t rows = call.inputs[0].shape[0], width = call.inputs[0].shape[1];
  sum_columns(pool, rows, width, call.outputs[0], [&](int64_t first, int64_t count, float* sum) {
    simd([&](auto) SPILLWAY_SIMD {
      float* dy = row_scratch(0, width);
      for (int64_t t = first; t < first + count; ++t) {
        load(call.inputs[0], t * width, width, dy);
        for (int64_t d = 0; d < width; ++d)
          sum[d] += dy[d];
      }
    });
  });
}

}  // namespace

const OpInfo add_bias_info = {OpKind::add_bias, "add_bias", Lane::compute, "y = x + bias, by rows",
                              check_add,        cost_bias,  run_add};
const OpInfo bias_backward_info = {
    OpKind::bias_backward, "bias_backward", Lane::compute, "gradient of a bias: sums of columns",
    check_backward,        cost_bias,       run_backward};

}  // namespace spillway
