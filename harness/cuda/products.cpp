// Ops as dense products: sizes, and where each matrix lies.
#include "harness/cuda/products.h"

#include <algorithm>

#include "harness/error.h"
#include "harness/narrow.h"
#include "harness/ops/quantised.h"

namespace spillway {
namespace {

constexpr int64_t most_alignment = 16;  // bytes; wider accesses than that nobody makes

// The largest power of two that divides `bytes`, up to most_alignment.
int64_t alignment_of(int64_t bytes) {
  int64_t alignment = most_alignment;
  while (bytes % alignment != 0)
    alignment /= 2;
  return alignment;
}

// Arenas are aligned to more, and slices follow each other without a gap. `block`: elements, all that
// begins within the buffer begins at a multiple of them.
ProductMatrix matrix_of(const Buffer& buffer, bool transposed, int64_t stride, int64_t step = 0,
                        int64_t block = 0) {
  const int64_t element = bytes_of(buffer.dtype);
  int64_t alignment = alignment_of(buffer.elements() * element);
  for (const int64_t distance : {step, block})
    alignment = std::min(alignment, alignment_of(distance * element));
  return {buffer.dtype, transposed, stride, step, alignment};
}

const std::byte* bytes_at(const Buffer& buffer, int64_t element) {
  return buffer.as<std::byte>() + element * bytes_of(buffer.dtype);
}
std::byte* out_at(const Buffer& buffer, int64_t element) {
  return buffer.as<std::byte>() + element * bytes_of(buffer.dtype);
}

ProductShape sizes(int64_t m, int64_t n, int64_t k, int64_t batch = 1) {
  ProductShape shape;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.batch = batch;
  return shape;
}

using Visit = std::function<void(const DenseProduct&)>;

// Both operands of a matmul, plain or narrow.
struct MatmulOperand {
  ProductMatrix matrix;
  const std::byte* data = nullptr;
  const float* scale = nullptr;
  const std::byte* blocks = nullptr;
};

MatmulOperand matmul_operand(const Buffer& buffer, bool transposed) {
  if (!is_narrow(buffer.dtype))
    return {matrix_of(buffer, transposed, buffer.shape[1]), buffer.as<std::byte>(), nullptr,
            nullptr};
  const NarrowLayout layout = narrow_layout(buffer.dtype, buffer.shape);
  const auto* scale = reinterpret_cast<const float*>(buffer.as<std::byte>() + layout.scale_at);
  if (is_fp8(buffer.dtype))
    return {{buffer.dtype, transposed, layout.pitch}, buffer.as<std::byte>(), scale, nullptr};
  const bool turned = buffer.dtype == DType::nvfp4_rows;
  return {{DType::nvfp4, transposed != turned, layout.pitch},
          buffer.as<std::byte>(),
          scale,
          buffer.as<std::byte>() + layout.scales_at};
}

void visit_matmul(const OpCall& call, const Visit& visit) {
  const Attributes& how = call.op->attributes;
  const Buffer& c = call.outputs[0];
  const Shape& of_a = call.inputs[0].shape;
  const MatmulOperand a = matmul_operand(call.inputs[0], how.transpose_a),
                      b = matmul_operand(call.inputs[1], how.transpose_b);
  ProductShape shape = sizes(c.shape[0], c.shape[1], how.transpose_a ? of_a[0] : of_a[1]);
  shape.a = a.matrix;
  shape.b = b.matrix;
  shape.c = matrix_of(c, false, c.shape[1]);
  visit({shape, a.data, b.data, out_at(c, 0), a.scale, b.scale, a.blocks, b.blocks});
}

// Of one sequence: rows of tokens, and of y those of its slots, a block of `capacity` an expert.
struct Masked {
  int64_t batch, seq, capacity, experts, slots, width, apart;  // apart: elements between blocks

  Masked(const Attributes& how, const Buffer& y)
      : batch(how.batch),
        seq(how.seq),
        capacity(how.capacity),
        experts(y.shape[0] / how.batch / how.capacity),
        slots(experts * capacity),
        width(y.shape[1]),
        apart(how.batch * capacity * width) {}
  int64_t mask_at(int64_t sequence) const { return sequence * seq * slots; }
  int64_t token_at(int64_t sequence) const { return sequence * seq * width; }
  int64_t slot_at(int64_t sequence) const { return sequence * capacity * width; }
};

// y of an expert = (its columns of the mask)^T x.
void visit_dispatch(const OpCall& call, const Visit& visit) {
  const Buffer &mask = call.inputs[0], &x = call.inputs[1], &y = call.outputs[0];
  const Masked s(call.op->attributes, y);
  ProductShape shape = sizes(s.capacity, s.width, s.seq, s.experts);
  shape.a = matrix_of(mask, true, s.slots, s.capacity, s.mask_at(1));
  shape.b = matrix_of(x, false, s.width, 0, s.token_at(1));
  shape.c = matrix_of(y, false, s.width, s.apart, s.slot_at(1));
  for (int64_t i = 0; i < s.batch; ++i)
    visit(
        {shape, bytes_at(mask, s.mask_at(i)), bytes_at(x, s.token_at(i)), out_at(y, s.slot_at(i))});
}

void visit_combine(const OpCall& call, const Visit& visit) {
  const Buffer &mask = call.inputs[0], &y = call.inputs[1], &out = call.outputs[0];
  const Masked s(call.op->attributes, y);
  ProductShape shape = sizes(s.seq, s.width, s.slots);
  shape.a = matrix_of(mask, false, s.slots);
  shape.b = matrix_of(y, false, s.width);
  shape.c = matrix_of(out, false, s.width);
  visit({shape, bytes_at(mask, 0), bytes_at(y, 0), out_at(out, 0)});
}

// An expert's columns of dmask = dout (its rows of y)^T.
void visit_mask_gradient(const OpCall& call, const Visit& visit) {
  const Buffer &d_out = call.inputs[0], &y = call.inputs[1], &d_mask = call.outputs[0];
  const Masked s(call.op->attributes, y);
  ProductShape shape = sizes(s.seq, s.capacity, s.width, s.experts);
  shape.a = matrix_of(d_out, false, s.width, 0, s.token_at(1));
  shape.b = matrix_of(y, true, s.width, s.apart, s.slot_at(1));
  shape.c = matrix_of(d_mask, false, s.slots, s.capacity, s.mask_at(1));
  for (int64_t i = 0; i < s.batch; ++i)
    visit({shape, bytes_at(d_out, s.token_at(i)), bytes_at(y, s.slot_at(i)),
           out_at(d_mask, s.mask_at(i))});
}

std::string matrix_text(const char* name, const ProductMatrix& matrix) {
  std::string line =
      text(" ", name, " ", name_of(matrix.dtype), matrix.transposed ? "^T/" : "/", matrix.stride);
  if (matrix.step != 0) line += text("+", matrix.step);
  if (matrix.alignment != most_alignment) line += text("@", matrix.alignment);
  return line;
}

}  // namespace

std::string key_of(const ProductShape& shape) {
  std::string key = text(shape.m, "x", shape.n, "x", shape.k);
  if (shape.batch != 1) key += text(" batch ", shape.batch);
  return key + matrix_text("a", shape.a) + matrix_text("b", shape.b) + matrix_text("c", shape.c);
}

bool is_dense_product(const Op& op) {
  if (runs_narrow(op)) return op.kind == OpKind::matmul;  // parts of a tensor cut its scale tiles
  if (op.kind == OpKind::combine_einsum) return op.attributes.batch == 1;
  return op.kind == OpKind::matmul || op.kind == OpKind::dispatch_einsum ||
         op.kind == OpKind::mask_gradient;
}

void for_each_product(const OpCall& call, const Visit& visit) {
  check(is_dense_product(*call.op), "op ", call.op->name, " is not made of dense products");
  if (call.op->kind == OpKind::matmul) return visit_matmul(call, visit);
  if (call.op->kind == OpKind::dispatch_einsum) return visit_dispatch(call, visit);
  if (call.op->kind == OpKind::combine_einsum) return visit_combine(call, visit);
  visit_mask_gradient(call, visit);
}

int64_t product_workspace_bytes(int compute_capability_major) {
  constexpr int hopper = 9;
  return int64_t{compute_capability_major >= hopper ? 32 : 4} << 20;
}

}  // namespace spillway
