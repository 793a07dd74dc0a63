// quantise: {x[*]} -> {the same values in a narrow format}, an operand of a product.
//   e4m3, e5m2: scale = largest |x| / largest code; code = x / scale
//   nvfp4: scale = largest |x| / (6 * 448); of each block, block scale = E4M3(largest |x| of it / 6 /
//   scale); code = x / (block scale * scale)
// Divisions in fp32, rounding to the nearest; a tensor or block of zeros has scale 1 or block scale 0.
// Scales are the tensor's own, not a former step's: the same values give the same bits whether they
// were kept or computed again. NVFP4 by NVIDIA, Pretraining Large Language Models with NVFP4,
// arXiv 2509.25149, appendix C; FP8 by one scale a tensor as cuBLASLt takes it.
#include <cstring>
#include <vector>

#include "harness/error.h"
#include "harness/narrow.h"
#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"
#include "harness/ops/small_float.h"

namespace spillway {
namespace {

std::string check_quantise(const Program& program, const Op& op) {
  const Signature s = match(program, op, "x[*]:float -> q[*]:narrow");
  if (!s.error.empty()) return s.error;
  const Tensor& q = program.at(op.outputs[0].tensor);
  if (q.slices > 1) return text(q.name, " is stacked, expected one slice");
  return q.shape.empty() ? text(q.name, " has no dimension") : "";
}

OpCost cost_quantise(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

SPILLWAY_INLINE float magnitude(float x) { return x < 0 ? -x : x; }

// A NaN wins, so that it is not lost in a scale.
SPILLWAY_INLINE float larger(float a, float b) { return a >= b || a != a ? a : b; }

float largest_magnitude(const Buffer& x, ThreadPool& pool) {
  constexpr int64_t block = 64 * chunk;
  std::vector<float> parts(static_cast<size_t>((x.elements() + block - 1) / block), 0.f);
  for_blocks(pool, x.elements(), block, [&](int64_t first, int64_t count) {
    float values[chunk], most = 0;
    for (int64_t at = first, end = first + count; at < end; at += chunk) {
      const int64_t n = std::min(chunk, end - at);
      load(x, at, n, values);
      for (int64_t i = 0; i < n; ++i)
        most = larger(magnitude(values[i]), most);
    }
    parts[static_cast<size_t>(first / block)] = most;
  });
  float most = 0;
  for (const float part : parts)
    most = larger(part, most);
  return most;
}

void put_scale(const Buffer& q, const NarrowLayout& layout, float scale) {
  std::memset(q.as<std::byte>() + layout.scale_at, 0, NarrowLayout::alignment);
  std::memcpy(q.as<std::byte>() + layout.scale_at, &scale, sizeof scale);
}

void quantise_bytes(const Buffer& x, const Buffer& q, const NarrowLayout& layout,
                    ThreadPool& pool) {
  const SmallFloat format = q.dtype == DType::e4m3 ? float_e4m3 : float_e5m2;
  const float most = largest_magnitude(x, pool);
  const float scale = most == 0 ? 1.f : most / decode(format, format.largest);
  std::memset(q.as<std::byte>() + layout.code_bytes, 0,
              static_cast<size_t>(layout.scales_at - layout.code_bytes));
  for_blocks(pool, x.elements(), 64 * chunk, [&](int64_t first, int64_t count) {
    float values[chunk];
    for (int64_t at = first, end = first + count; at < end; at += chunk) {
      const int64_t n = std::min(chunk, end - at);
      load(x, at, n, values);
      for (int64_t i = 0; i < n; ++i)
        q.as<uint8_t>()[at + i] = static_cast<uint8_t>(encode(format, values[i] / scale));
    }
  });
  put_scale(q, layout, scale);
}

// Values of one block, of which `count` exist; returns the code of the scale, E4M3.
uint32_t quantise_block(const float* x, int64_t count, float scale, uint8_t* codes) {
  float most = 0;
  for (int64_t i = 0; i < count; ++i)
    most = larger(magnitude(x[i]), most);
  const uint32_t block_scale =
      encode(float_e4m3, most / decode(float_e2m1, float_e2m1.largest) / scale);
  const float unit = decode(float_e4m3, block_scale) * scale;
  uint32_t code[NarrowLayout::block] = {};
  for (int64_t i = 0; i < count; ++i)
    code[i] = unit == 0 ? 0 : encode(float_e2m1, x[i] / unit);
  for (int64_t i = 0; i < NarrowLayout::block; i += 2)
    codes[i / 2] = static_cast<uint8_t>(code[i] | code[i + 1] << 4);
  return block_scale;
}

// One stored row; element j of it is x[base + j * step].
void quantise_row(const Buffer& x, int64_t base, int64_t step, int64_t row, float scale,
                  const Buffer& q, const NarrowLayout& layout) {
  uint8_t* codes = q.as<uint8_t>() + row * layout.pitch / 2;
  uint8_t* scales = q.as<uint8_t>() + layout.scales_at +
                    row / layout.rows * layout.scale_rows * layout.scale_columns;
  for (int64_t j = 0; j < layout.columns; j += NarrowLayout::block) {
    const int64_t count = std::min(NarrowLayout::block, layout.columns - j);
    float values[NarrowLayout::block];
    for (int64_t i = 0; i < count; ++i)
      load(x, base + (j + i) * step, 1, values + i);
    scales[block_scale_at(layout, row % layout.rows, j / NarrowLayout::block)] =
        static_cast<uint8_t>(quantise_block(values, count, scale, codes + j / 2));
  }
}

void quantise_blocks(const Buffer& x, const Buffer& q, const NarrowLayout& layout,
                     ThreadPool& pool) {
  const float most = largest_magnitude(x, pool);
  const float largest =
      decode(float_e2m1, float_e2m1.largest) * decode(float_e4m3, float_e4m3.largest);
  const float scale = most == 0 ? 1.f : most / largest;
  std::memset(q.as<std::byte>() + layout.code_bytes, 0,
              static_cast<size_t>(layout.scale_at - layout.code_bytes));
  const bool transposed = q.dtype == DType::nvfp4_rows;
  for_blocks(pool, layout.matrices * layout.rows, rows_per_block(layout.columns),
             [&](int64_t first, int64_t count) {
               for (int64_t row = first; row < first + count; ++row) {
                 const int64_t matrix = row / layout.rows * layout.rows * layout.columns;
                 const int64_t base = row % layout.rows * (transposed ? 1 : layout.columns);
                 quantise_row(x, matrix + base, transposed ? layout.rows : 1, row, scale, q,
                              layout);
               }
             });
  put_scale(q, layout, scale);
}

void run_quantise(const OpCall& call, ThreadPool& pool) {
  const Buffer &x = call.inputs[0], &q = call.outputs[0];
  const NarrowLayout layout = narrow_layout(q.dtype, q.shape);
  layout.scale_rows == 0 ? quantise_bytes(x, q, layout, pool) : quantise_blocks(x, q, layout, pool);
}

}  // namespace

const OpInfo quantise_info = {
    OpKind::quantise, "quantise",
    Lane::compute,    "an operand of a product in a narrow format, with its scales",
    check_quantise,   cost_quantise,
    run_quantise};

}  // namespace spillway
