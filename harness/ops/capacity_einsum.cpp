// Dense products with the masks of capacity_mask, sequence by sequence. Row (e * batch + b) * C + c
// of y is slot c of expert e in sequence b, so that the rows of one expert lie together.
//   dispatch_einsum {mask[T,E*C], x[T,D]} -> {y[E*batch*C,D]}: y_b = mask_b^T x_b
//   combine_einsum  {mask[T,E*C], y[E*batch*C,D]} -> {out[T,D]}: out_b = mask_b y_b
//   mask_gradient   {dout[T,D], y[E*batch*C,D]} -> {dmask[T,E*C]}: dmask_b = dout_b y_b^T
// combine_einsum with the dispatch mask is also the gradient of dispatch_einsum for x, and
// dispatch_einsum with the combine mask that of combine_einsum for y.
// Attributes: batch, seq, capacity (C), precision.
#include <cstring>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/capacity.h"
#include "harness/ops/matmul.h"
#include "harness/ops/operands.h"
#include "harness/ops/quantised.h"

namespace spillway {
namespace {

std::string check_sizes(const Program& program, const Op& op, const Signature& s) {
  if (!s.error.empty()) return s.error;
  const std::string error = check_mask(op.attributes, s);
  if (!error.empty()) return error;
  if (s["R"] != s["W"] * op.attributes.batch)
    return text("y has ", s["R"],
                " rows, expected experts * batch * capacity = ", s["W"] * op.attributes.batch);
  return check_operands(program, op);
}

std::string check_dispatch(const Program& program, const Op& op) {
  return check_sizes(program, op, match(program, op, "mask[T,W]:q x[T,D]:q -> y[R,D]:float"));
}
std::string check_combine(const Program& program, const Op& op) {
  return check_sizes(program, op, match(program, op, "mask[T,W]:q y[R,D]:q -> out[T,D]:float"));
}
std::string check_gradient(const Program& program, const Op& op) {
  return check_sizes(program, op, match(program, op, "dout[T,D]:q y[R,D]:q -> dmask[T,W]:float"));
}

// 2 T (E C) D, whatever the mask holds: R rows of y are batch * E * C.
OpCost cost_einsum(const Program& program, const Op& op) {
  const Operand& y = op.kind == OpKind::dispatch_einsum ? op.outputs[0] : op.inputs[1];
  const Shape shape = shape_of(program, y);
  const double seq = static_cast<double>(op.attributes.seq);
  return {.matmul_flops = 2 * seq * static_cast<double>(shape[0]) * static_cast<double>(shape[1]),
          .bytes = touched_bytes(program, op)};
}

// The sizes of one sequence's products; slots = E * C.
struct Sizes {
  int64_t batch, seq, capacity, slots, width, element;
};

Sizes sizes_of(const OpCall& call, const Buffer& y) {
  const Attributes& a = call.op->attributes;
  return {a.batch, a.seq, a.capacity, y.shape[0] / a.batch, y.shape[1], bytes_of(y.dtype)};
}

// Copies between the rows of sequence b in y, a block of C rows an expert, and `together`.
void copy_sequence(const Sizes& s, int64_t b, std::byte* y, std::byte* together, bool into_y,
                   ThreadPool& pool) {
  const int64_t block = s.capacity * s.width * s.element;
  pool.run(s.slots / s.capacity, [&](int64_t e, int) {
    std::byte *in_y = y + (e * s.batch + b) * block, *in_one = together + e * block;
    std::memcpy(into_y ? in_y : in_one, into_y ? in_one : in_y, static_cast<size_t>(block));
  });
}

// Room for the rows of one sequence together.
std::byte* together_scratch(const Sizes& s) {
  const int64_t bytes = s.slots * s.width * s.element;
  return reinterpret_cast<std::byte*>(row_scratch(11, (bytes + 3) / 4));
}

// Rows of sequence b in a tensor of [batch * seq, columns].
std::byte* sequence_of(const Buffer& buffer, const Sizes& s, int64_t b) {
  return buffer.as<std::byte>() + b * s.seq * buffer.shape[1] * bytes_of(buffer.dtype);
}

void run_dispatch(const OpCall& call, ThreadPool& pool) {
  const Buffer &mask = call.inputs[0], &x = call.inputs[1], &y = call.outputs[0];
  const Sizes s = sizes_of(call, y);
  std::byte* together = together_scratch(s);
  for (int64_t b = 0; b < s.batch; ++b) {
    Product q{.m = s.slots, .n = s.width, .k = s.seq, .in = x.dtype, .out = y.dtype};
    q.a = sequence_of(mask, s, b);
    q.b = sequence_of(x, s, b);
    q.c = together;
    q.a_row = 1;
    q.a_step = s.slots;
    q.b_step = s.width;
    q.b_column = 1;
    product(q, pool);
    copy_sequence(s, b, y.as<std::byte>(), together, true, pool);
  }
}

void run_combine(const OpCall& call, ThreadPool& pool) {
  const Buffer &mask = call.inputs[0], &y = call.inputs[1], &out = call.outputs[0];
  const Sizes s = sizes_of(call, y);
  std::byte* together = together_scratch(s);
  for (int64_t b = 0; b < s.batch; ++b) {
    copy_sequence(s, b, y.as<std::byte>(), together, false, pool);
    Product q{.m = s.seq, .n = s.width, .k = s.slots, .in = y.dtype, .out = out.dtype};
    q.a = sequence_of(mask, s, b);
    q.b = together;
    q.c = sequence_of(out, s, b);
    q.a_row = s.slots;
    q.a_step = 1;
    q.b_step = s.width;
    q.b_column = 1;
    product(q, pool);
  }
}

void run_gradient(const OpCall& call, ThreadPool& pool) {
  const Buffer &d_out = call.inputs[0], &y = call.inputs[1], &d_mask = call.outputs[0];
  const Sizes s = sizes_of(call, y);
  std::byte* together = together_scratch(s);
  for (int64_t b = 0; b < s.batch; ++b) {
    copy_sequence(s, b, y.as<std::byte>(), together, false, pool);
    Product q{.m = s.seq, .n = s.slots, .k = s.width, .in = y.dtype, .out = d_mask.dtype};
    q.a = sequence_of(d_out, s, b);
    q.b = together;
    q.c = sequence_of(d_mask, s, b);
    q.a_row = s.width;
    q.a_step = 1;
    q.b_step = 1;
    q.b_column = s.width;
    product(q, pool);
  }
}

}  // namespace

const OpInfo dispatch_einsum_info = {OpKind::dispatch_einsum,
                                     "dispatch_einsum",
                                     Lane::compute,
                                     "slots of experts = mask^T tokens",
                                     check_dispatch,
                                     cost_einsum,
                                     run_product<run_dispatch>};
const OpInfo combine_einsum_info = {OpKind::combine_einsum,
                                    "combine_einsum",
                                    Lane::compute,
                                    "tokens = mask times slots of experts",
                                    check_combine,
                                    cost_einsum,
                                    run_product<run_combine>};
const OpInfo mask_gradient_info = {OpKind::mask_gradient,
                                   "mask_gradient",
                                   Lane::compute,
                                   "gradient of a mask: tokens by slots",
                                   check_gradient,
                                   cost_einsum,
                                   run_product<run_gradient>};

}  // namespace spillway
