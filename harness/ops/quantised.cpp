// Emulation of products in narrow formats: exact values, fp32 sums.
#include "harness/ops/quantised.h"

#include <vector>

#include "harness/error.h"
#include "harness/narrow.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"
#include "harness/ops/small_float.h"

namespace spillway {

bool sums_rows(const Op& product, size_t i) {
  switch (product.kind) {
    case OpKind::dispatch_einsum:
      return true;
    case OpKind::combine_einsum:
      return i == 1;
    case OpKind::mask_gradient:
      return false;
    default:
      return i == 0 ? product.attributes.transpose_a : !product.attributes.transpose_b;
  }
}

std::string check_operands(const Program& program, const Op& product) {
  for (size_t i = 0; i < 2; ++i) {
    const Tensor& tensor = program.at(product.inputs[i].tensor);
    const bool rows = sums_rows(product, i);
    if (tensor.dtype == (rows ? DType::nvfp4 : DType::nvfp4_rows))
      return text(tensor.name, " is ", name_of(tensor.dtype), ", but its ",
                  rows ? "rows" : "columns", " are summed, expected ",
                  name_of(rows ? DType::nvfp4_rows : DType::nvfp4));
  }
  return require_distinct(product);
}

namespace {

SPILLWAY_INLINE void put(const Buffer& values, int64_t at, float value) {
  values.as<Bf16>()[at] = to_bf16(value);
}

void unpack_bytes(const Buffer& packed, const Buffer& values, ThreadPool& pool) {
  const SmallFloat format = packed.dtype == DType::e4m3 ? float_e4m3 : float_e5m2;
  for_blocks(pool, packed.elements(), 64 * chunk, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i)
      put(values, i, decode(format, packed.as<uint8_t>()[i]));
  });
}

// One stored row, of which element j belongs at `base + j * step` of the values.
void unpack_row(const NarrowLayout& layout, const Buffer& packed, const Buffer& values, int64_t row,
                int64_t base, int64_t step) {
  const int64_t matrix = row / layout.rows;
  const uint8_t* codes = packed.as<uint8_t>() + row * layout.pitch / 2;
  const uint8_t* scales =
      packed.as<uint8_t>() + layout.scales_at + matrix * layout.scale_rows * layout.scale_columns;
  for (int64_t j = 0; j < layout.columns; ++j) {
    const uint32_t code = j % 2 == 0 ? codes[j / 2] & 15u : codes[j / 2] >> 4;
    const uint32_t scale =
        scales[block_scale_at(layout, row % layout.rows, j / NarrowLayout::block)];
    put(values, base + j * step, decode(float_e2m1, code) * decode(float_e4m3, scale));
  }
}

void unpack_blocks(const Buffer& packed, const Buffer& values, ThreadPool& pool) {
  const NarrowLayout layout = narrow_layout(packed.dtype, packed.shape);
  const bool transposed = packed.dtype == DType::nvfp4_rows;
  pool.run(layout.matrices * layout.rows, [&](int64_t row, int) {
    const int64_t matrix = row / layout.rows * layout.rows * layout.columns;
    const int64_t in_matrix = row % layout.rows;
    if (transposed)
      unpack_row(layout, packed, values, row, matrix + in_matrix, layout.rows);
    else
      unpack_row(layout, packed, values, row, matrix + in_matrix * layout.columns, 1);
  });
}

float tensor_scale(const Buffer& packed) {
  float scale;
  std::memcpy(&scale, packed.as<std::byte>() + narrow_layout(packed.dtype, packed.shape).scale_at,
              sizeof scale);
  return scale;
}

// Without the tensor's scale.
Buffer unpacked(const Buffer& packed, int slot, ThreadPool& pool) {
  const Buffer values{row_scratch(slot, (packed.elements() + 1) / 2), packed.shape, DType::bf16};
  const bool bytes = is_fp8(packed.dtype);
  bytes ? unpack_bytes(packed, values, pool) : unpack_blocks(packed, values, pool);
  return values;
}

}  // namespace

void run_on_values(const OpCall& call, ThreadPool& pool, RunOp product) {
  if (!is_narrow(call.inputs[0].dtype)) return product(call, pool);
  std::vector<Buffer> inputs(call.inputs.begin(), call.inputs.end());
  const float scale = tensor_scale(inputs[0]) * tensor_scale(inputs[1]);
  for (size_t i = 0; i < 2; ++i)
    inputs[i] = unpacked(inputs[i], 8 + static_cast<int>(i), pool);
  const Buffer& result = call.outputs[0];
  const Buffer sums{row_scratch(10, result.elements()), result.shape, DType::f32};
  OpCall on_values = call;
  on_values.inputs = inputs;
  on_values.outputs = std::span(&sums, 1);
  product(on_values, pool);
  for_blocks(pool, result.elements(), 64 * chunk, [&](int64_t first, int64_t count) {
    float values[chunk];
    for (int64_t at = first, end = first + count; at < end; at += chunk) {
      const int64_t n = std::min(chunk, end - at);
      for (int64_t i = 0; i < n; ++i)
        values[i] = sums.as<float>()[at + i] * scale;
      store(result, at, n, values);
    }
  });
}

}  // namespace spillway
