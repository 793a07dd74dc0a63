// Causal attention on tiles: what its two kernels share. Neither ever holds a [seq, seq] matrix.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "harness/ops.h"
#include "harness/ops/pack.h"
#include "harness/ops/register_tile.h"
#include "harness/thread_pool.h"

namespace spillway {

void attention_forward(const OpCall& call, ThreadPool& pool);
void attention_backward(const OpCall& call, ThreadPool& pool);

// Queries and keys go in tiles of this many rows; a multiple of every register tile.
inline constexpr int64_t attention_tile = common_tile;

inline int64_t value_dim_of(const Attributes& a) {
  return a.value_dim == 0 ? a.head_dim : a.value_dim;
}

// Sizes of one call. Widths of heads (of q and k, and of v and o) are rounded up (`width`,
// `value_width`) so that register tiles never cross a row of fp32 scratch.
struct AttentionSizes {
  int64_t batch, seq, heads, kv_heads, head_dim, value_dim, width, value_width, tiles;
  float scale;

  int64_t group() const { return heads / kv_heads; }
  int64_t rows_of_tile(int64_t tile) const {
    return std::min(attention_tile, seq - tile * attention_tile);
  }
};

inline AttentionSizes attention_sizes(const Attributes& a) {
  const auto padded = [](int64_t dim) {
    return (dim + 31) / 32 * 32;
  };  // 32: the widest register tile
  return {
      a.batch,
      a.seq,
      a.heads,
      a.kv_heads,
      a.head_dim,
      value_dim_of(a),
      padded(a.head_dim),
      padded(value_dim_of(a)),
      (a.seq + attention_tile - 1) / attention_tile,
      a.scale == 0 ? 1.f / std::sqrt(static_cast<float>(a.head_dim)) : static_cast<float>(a.scale)};
}

// One head's rows of one tile inside a [batch * seq, heads * dim] tensor.
struct HeadRows {
  const void* data;
  DType dtype;
  int64_t dim;
  int64_t first, stride;  // element of (row 0, 0); elements from row to row
};

inline HeadRows head_rows(const Buffer& buffer, const AttentionSizes& s, int64_t dim, int64_t b,
                          int64_t head, int64_t tile) {
  const int64_t stride = buffer.shape[1];
  return {buffer.data, buffer.dtype, dim, (b * s.seq + tile * attention_tile) * stride + head * dim,
          stride};
}

// Asks for rows that are needed soon: they lie a stride apart, which no hardware prefetcher
// follows.
SPILLWAY_INLINE void prefetch_rows(const HeadRows& in, int64_t rows) {
  const int64_t size = in.dtype == DType::f32 ? 4 : 2, line = 64;
  for (int64_t r = 0; r < rows; ++r) {
    const char* row = static_cast<const char*>(in.data) + (in.first + r * in.stride) * size;
    for (int64_t byte = 0; byte < in.dim * size; byte += line)
      __builtin_prefetch(row + byte, 0, 2);
  }
}

// out[attention_tile, width] = the rows; what is beyond rows or the head is zero.
SPILLWAY_INLINE void load_rows(const HeadRows& in, int64_t width, int64_t rows, float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    load(in.data, in.dtype, in.first + r * in.stride, in.dim, out + r * width);
    if (in.dim < width) std::fill_n(out + r * width + in.dim, width - in.dim, 0.f);
  }
  if (rows < attention_tile) std::fill_n(out + rows * width, (attention_tile - rows) * width, 0.f);
}

// out[dim, attention_tile] = the rows transposed; columns beyond rows are zero.
SPILLWAY_INLINE void load_transposed(const HeadRows& in, int64_t rows, float* out) {
  if (in.dtype == DType::f32) {
    transpose(static_cast<const float*>(in.data) + in.first, in.stride, rows, in.dim, out,
              attention_tile, attention_tile);
  } else {
    transpose(static_cast<const Bf16*>(in.data) + in.first, in.stride, rows, in.dim, out,
              attention_tile, attention_tile);
  }
}

// Columns of a score row that a query may see: keys up to its own position.
SPILLWAY_INLINE int64_t visible(int64_t q_tile, int64_t kv_tile, int64_t row, int64_t kv_rows) {
  return q_tile == kv_tile ? std::min(row + 1, kv_rows) : kv_rows;
}

// A row-major tile as the left operand (or, transposed, its columns as rows), and as the right
// operand.
template <class I>
SPILLWAY_INLINE TileOperand left(const float* data, int64_t stride, I) {
  return {data, I::rows * stride, stride, 1};
}
template <class I>
SPILLWAY_INLINE TileOperand left_transposed(const float* data, int64_t stride, I) {
  return {data, I::rows, 1, stride};
}
template <class I>
SPILLWAY_INLINE TileOperand right(const float* data, int64_t stride, I) {
  return {data, I::columns, 1, stride};
}

}  // namespace spillway
