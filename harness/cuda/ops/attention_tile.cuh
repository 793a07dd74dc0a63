// What the two kernels of causal attention share: sizes, rows of a head, masked tiles of scores.
// Plain and deterministic, all in fp32: the fallback and the reference beside cuDNN.
#pragma once

#include "harness/cuda/ops/product_tile.cuh"
#include "harness/error.h"

namespace spillway {

struct AttentionShape {
  static constexpr int most_parts = 4;  // of 64 columns of a head, whose sums are in registers
  static constexpr int64_t columns_of(int parts) { return int64_t{parts} * tile_size; }
  int64_t batch, seq, heads, kv_heads, head_dim, value_dim, tiles;
  float scale;

  explicit AttentionShape(const Attributes& a)
      : batch(a.batch),
        seq(a.seq),
        heads(a.heads),
        kv_heads(a.kv_heads),
        head_dim(a.head_dim),
        value_dim(a.value_dim == 0 ? a.head_dim : a.value_dim),
        tiles(parts_of(a.seq, tile_size)),
        scale(a.scale == 0 ? 1.f / std::sqrt(static_cast<float>(a.head_dim))
                           : static_cast<float>(a.scale)) {
    constexpr int64_t most = columns_of(most_parts);
    check(head_dim <= most && value_dim <= most, "heads of ", head_dim, " and ", value_dim,
          " columns, at most ", most, " are possible");
  }
  SPILLWAY_DEVICE int64_t group() const { return heads / kv_heads; }
};

// The rows of one head in one sequence: element (t, d) is first + t * stride + d.
struct HeadRowsView {
  View view;
  int64_t first, stride, seq, dim;

  // Zero beyond the sequence and the head.
  SPILLWAY_DEVICE float at(int64_t t, int64_t d) const {
    return t < seq && d < dim ? load_one(view, first + t * stride + d) : 0.f;
  }
  SPILLWAY_DEVICE void put(int64_t t, int64_t d, float x) const {
    if (t < seq && d < dim) store_one(view, first + t * stride + d, x);
  }
};
SPILLWAY_DEVICE inline HeadRowsView head_rows_view(const View& view, const AttentionShape& s,
                                                   int64_t sequence, int64_t head, int64_t heads,
                                                   int64_t dim) {
  return {view, (sequence * s.seq * heads + head) * dim, heads * dim, s.seq, dim};
}

// sum += rows q .. q + 63 of `a` times rows k .. k + 63 of `b`, transposed: scores, and dO V^T.
template <class Group>
SPILLWAY_DEVICE void add_rows_by_rows(const Group& group, float* scratch, const HeadRowsView& a,
                                      int64_t q, const HeadRowsView& b, int64_t k, TileSum& sum) {
  add_product(
      group, scratch, a.dim, true, [&](int i, int64_t p) { return a.at(q + i, p); }, true,
      [&](int j, int64_t p) { return b.at(k + j, p); }, sum);
}

// A tile of values, 64 x 64, in shared memory.
inline constexpr int square_floats = tile_size * tile_stride;

template <class Group>
SPILLWAY_DEVICE void put_square(const Group& group, float* square, const TileSum& values) {
  const int row = group.rank() / 16 * 4, column = group.rank() % 16 * 4;
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c)
      square[(row + r) * tile_stride + column + c] = values[r][c];
}

// Part d / 64 of out[64, dim] += square times rows k .. k + 63 of `b` (transposed: the square's
// columns are the rows of the product). Begins with a sync, and no thread reads the square after the
// last one in it: the square may be filled just before and just after.
template <class Group>
SPILLWAY_DEVICE void add_square_by_rows(const Group& group, float* scratch, const float* square,
                                        bool transposed, const HeadRowsView& b, int64_t k,
                                        int64_t d, TileSum& sum) {
  add_product(
      group, scratch, tile_size, !transposed,
      [&](int i, int64_t p) {
        return transposed ? square[p * tile_stride + i] : square[i * tile_stride + p];
      },
      false, [&](int j, int64_t p) { return b.at(k + p, d + j); }, sum);
}

template <class Group>
SPILLWAY_DEVICE void store_part(const Group& group, const HeadRowsView& to, int64_t row, int64_t d,
                                const TileSum& sum) {
  const int64_t i = row + group.rank() / 16 * 4, j = d + group.rank() % 16 * 4;
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c)
      to.put(i + r, j + c, sum[r][c]);
}

// Whether key k is visible to query q.
SPILLWAY_DEVICE inline bool sees(const AttentionShape& s, int64_t q, int64_t k) {
  return k <= q && q < s.seq;
}

}  // namespace spillway
