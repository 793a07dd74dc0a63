// Products of matrices by tiles of 64 x 64 in fp32: what our plain attention and our products of fp32
// operands are made of. They are the fallback and the reference, not meant to be as fast.
#pragma once

#include "harness/cuda/ops/call.cuh"

namespace spillway {

inline constexpr int tile_size = 64;      // rows and columns of a tile
inline constexpr int tile_threads = 256;  // 16 x 16, each with 4 x 4 elements
inline constexpr int tile_step = 32;      // of the sum, in shared memory at a time
inline constexpr int tile_stride = tile_size + 4;
inline constexpr int tile_scratch = 2 * tile_step * tile_stride;  // floats

using TileSum = float[4][4];  // element (r, c) is row 4 (rank / 16) + r, column 4 (rank % 16) + c

SPILLWAY_DEVICE inline void load_four(const float* from, float (&x)[4]) {
  const Words words = load_words(from);
  SPILLWAY_UNROLL
  for (int i = 0; i < 4; ++i)
    x[i] = float_of_bits(words.word[i]);
}

// to[p * tile_stride + i] = at(i, p) for p < tile_step, zero from p = steps on. along_step: memory
// runs along p, so threads beside each other take values of p beside each other.
template <class Group, class At>
SPILLWAY_DEVICE void fill_step(const Group& group, float* to, int64_t steps, bool along_step,
                               const At& at) {
  SPILLWAY_UNROLL
  for (int part = 0; part < tile_size * tile_step / tile_threads; ++part) {
    const int e = group.rank() + part * tile_threads;
    const int p = along_step ? e % tile_step : e / tile_size,
              i = along_step ? e / tile_step : e % tile_size;
    to[p * tile_stride + i] = p < steps ? at(i, p) : 0.f;
  }
}

// sum += A B over p < k, where a(i, p) and b(j, p) give elements of the tile's 64 rows of A and
// columns of B (zero beyond the matrix). Begins with a sync and ends without one; `scratch` holds
// tile_scratch floats.
template <class Group, class A, class B>
SPILLWAY_DEVICE void add_product(const Group& group, float* scratch, int64_t k, bool a_along_step,
                                 const A& a, bool b_along_step, const B& b, TileSum& sum) {
  float *a_step = scratch, *b_step = scratch + tile_step * tile_stride;
  const float *own_a = a_step + group.rank() / 16 * 4, *own_b = b_step + group.rank() % 16 * 4;
  for (int64_t first = 0; first < k; first += tile_step) {
    group.sync();
    fill_step(group, a_step, k - first, a_along_step,
              [&](int i, int p) { return a(i, first + p); });
    fill_step(group, b_step, k - first, b_along_step,
              [&](int j, int p) { return b(j, first + p); });
    group.sync();
#ifdef __CUDACC__
#pragma unroll 8
#endif
    for (int p = 0; p < tile_step; ++p) {
      float x[4], y[4];
      load_four(own_a + p * tile_stride, x);
      load_four(own_b + p * tile_stride, y);
      SPILLWAY_UNROLL
      for (int r = 0; r < 4; ++r) {
        SPILLWAY_UNROLL
        for (int c = 0; c < 4; ++c)
          sum[r][c] += x[r] * y[c];
      }
    }
  }
}

// Rows in blocks that lie apart: row s is row s / block * apart + s % block of memory. block 0: row
// s.
struct RowBlocks {
  int64_t block = 0, apart = 0;

  SPILLWAY_DEVICE int64_t operator()(int64_t s) const {
    if (block == 0) return s;
    const int64_t q = RowPacks::quotient(s, block);
    return q * apart + (s - q * block);
  }
};

// A matrix in memory: element (r, c) is first + rows(r) * stride + c. As an operand it may stand
// transposed.
struct Matrix {
  View view;
  int64_t first = 0, stride = 0;
  bool transposed = false;
  RowBlocks rows = {};

  SPILLWAY_DEVICE int64_t index(int64_t r, int64_t c) const {
    return transposed ? first + rows(c) * stride + r : first + rows(r) * stride + c;
  }
};

// c[m, n] = a[m, k] b[k, n], one tile.
struct TileProduct {
  static constexpr int threads = tile_threads, side = tile_size, blocks_at_once = 1;
  Matrix a, b, c;
  int64_t m, n, k;

  static int64_t scratch_bytes() { return tile_scratch * 4; }

  template <class Group>
  SPILLWAY_DEVICE void tile(const Group& group, int64_t row, int64_t column) const {
    TileSum sum = {};
    add_product(
        group, reinterpret_cast<float*>(group.scratch()), k, !a.transposed,
        [&](int i, int64_t p) { return row + i < m ? load_one(a.view, a.index(row + i, p)) : 0.f; },
        b.transposed,
        [&](int j, int64_t p) {
          return column + j < n ? load_one(b.view, b.index(p, column + j)) : 0.f;
        },
        sum);
    const int64_t i = row + group.rank() / 16 * 4, j = column + group.rank() % 16 * 4;
    SPILLWAY_UNROLL
    for (int r = 0; r < 4; ++r) {
      SPILLWAY_UNROLL
      for (int s = 0; s < 4; ++s)
        if (i + r < m && j + s < n) store_one(c.view, c.index(i + r, j + s), sum[r][s]);
    }
  }
};

inline Matrix matrix_of(const Buffer& buffer, int64_t stride, bool transposed = false,
                        int64_t first = 0, RowBlocks rows = {}) {
  return {view_of(buffer), first, stride, transposed, rows};
}

// Tiles of a matrix in an order in which those that run at once share rows and columns: bands of 16
// rows of tiles, column after column.
struct TileGrid {
  static constexpr int64_t band = 16;
  int64_t rows, columns;

  int64_t tiles() const { return rows * columns; }
  struct Place {
    int64_t row, column;
  };
  SPILLWAY_DEVICE Place place(int64_t tile) const {
    const int64_t first = tile / (band * columns) * band, own = tile - first * columns,
                  here = rows - first < band ? rows - first : band;
    return {first + own % here, own / here};
  }
};
template <class Product>
TileGrid grid_of(const Product& product) {
  return {parts_of(product.m, Product::side), parts_of(product.n, Product::side)};
}

}  // namespace spillway
