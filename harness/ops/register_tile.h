// Products of fp32 tiles in cache: C += A B on register tiles of isa.rows x isa.columns. Both the
// portable matmul and attention are made of these. Inlined into simd() bodies.
#pragma once

#include <cstdint>

#include "harness/ops/simd.h"

namespace spillway {

// Element (r, p) of panel i of A, and vector r of row p of panel j of B:
//   A: data[i * panel + r * row + p * step]   (packed panels: row = 1, step = isa.rows; a row-major
//   matrix: step = 1) B: data[j * panel + p * step + r]         (packed panels: step = isa.columns;
//   a row-major matrix: panel = columns)
struct TileOperand {
  const float* data;
  int64_t panel, row, step;
};

// c[isa.rows, isa.columns] (+)= sum over k.
template <class I>
SPILLWAY_INLINE void register_tile(int64_t k, const float* a, int64_t a_row, int64_t a_step,
                                   const float* b, int64_t b_step, float* c, int64_t c_row,
                                   bool accumulate) {
  using V = Vector<I>;
  V sum[I::rows][2];
  for (int r = 0; r < I::rows; ++r) {
    for (int v = 0; v < 2; ++v) {
      sum[r][v] = accumulate ? *reinterpret_cast<const V*>(c + r * c_row + v * I::lanes) : V{};
    }
  }
  for (int64_t p = 0; p < k; ++p) {
    const V b0 = *reinterpret_cast<const V*>(b + p * b_step);
    const V b1 = *reinterpret_cast<const V*>(b + p * b_step + I::lanes);
#pragma GCC unroll 16
    for (int r = 0; r < I::rows; ++r) {
      const float x = a[r * a_row + p * a_step];
      sum[r][0] += x * b0;
      sum[r][1] += x * b1;
    }
  }
  for (int r = 0; r < I::rows; ++r) {
    for (int v = 0; v < 2; ++v)
      *reinterpret_cast<V*>(c + r * c_row + v * I::lanes) = sum[r][v];
  }
}

// c[m, n] (+)= A[m, k] B[k, n], c row-major with c_row floats a row. m and n are rounded up to
// whole register tiles: operands and c must have that room (what is there does not reach the first
// m rows and n columns).
template <class I>
SPILLWAY_INLINE void tile_product(int64_t m, int64_t n, int64_t k, const TileOperand& a,
                                  const TileOperand& b, float* c, int64_t c_row, bool accumulate,
                                  I) {
  for (int64_t j = 0; j * I::columns < n; ++j) {
    for (int64_t i = 0; i * I::rows < m; ++i) {
      register_tile<I>(k, a.data + i * a.panel, a.row, a.step, b.data + j * b.panel, b.step,
                       c + i * I::rows * c_row + j * I::columns, c_row, accumulate);
    }
  }
}

}  // namespace spillway
