// Copies a block of a matrix (f32 or bf16, either orientation) into fp32 panels, or into its
// transpose.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "harness/ops/floats.h"

namespace spillway {

// Four consecutive values as fp32.
typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
SPILLWAY_INLINE void load_four(const float* in, Four& out) {
  out = *reinterpret_cast<const Four*>(in);
}
SPILLWAY_INLINE void load_four(const Bf16* in, Four& out) {
  typedef uint16_t Bits16 __attribute__((vector_size(8), aligned(2), may_alias));
  typedef uint32_t Bits32 __attribute__((vector_size(16)));
  const Bits32 bits = __builtin_convertvector(*reinterpret_cast<const Bits16*>(in), Bits32) << 16;
  std::memcpy(&out, &bits, sizeof out);
}

// out[p * out_step + r] = in[r * in_row + p] for a 4 x 4 block.
template <class T>
SPILLWAY_INLINE void transpose_four(const T* in, int64_t in_row, float* out, int64_t out_step) {
  Four a, b, c, d;
  load_four(in, a);
  load_four(in + in_row, b);
  load_four(in + 2 * in_row, c);
  load_four(in + 3 * in_row, d);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
             ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
             cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  *reinterpret_cast<Four*>(out) = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
  *reinterpret_cast<Four*>(out + out_step) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
  *reinterpret_cast<Four*>(out + 2 * out_step) =
      __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
  *reinterpret_cast<Four*>(out + 3 * out_step) =
      __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

// out[p * out_step + r] = in[r * in_row + p] for r < rows, p < k; zero for rows <= r < room (room
// >= 4). Blocks of four rows overlap at the end: they write the same values twice.
template <class T>
SPILLWAY_INLINE void transpose(const T* in, int64_t in_row, int64_t rows, int64_t k, float* out,
                               int64_t out_step, int64_t room) {
  int64_t p = 0;
  if (rows >= 4) {
    for (; p + 4 <= k; p += 4) {
      for (int64_t r = 0; r < rows; r += 4) {
        const int64_t at = std::min(r, rows - 4);
        transpose_four(in + at * in_row + p, in_row, out + p * out_step + at, out_step);
      }
    }
  }
  for (; p < k; ++p) {
    for (int64_t r = 0; r < rows; ++r)
      out[p * out_step + r] = to_float(in[r * in_row + p]);
  }
  for (p = 0; rows < room && p < k; ++p)
    std::fill_n(out + p * out_step + rows, room - rows, 0.f);
}

// Width >= 4 values; fours overlap at the end.
template <int Width, class T>
SPILLWAY_INLINE void copy_row(const T* in, float* out) {
#pragma GCC unroll 16
  for (int r = 0; r < Width; r += 4) {
    const int at = r + 4 <= Width ? r : Width - 4;
    Four four;
    load_four(in + at, four);
    *reinterpret_cast<Four*>(out + at) = four;
  }
}

// Panels of `Width` rows: out[(r / Width) * k * Width + p * Width + r % Width] = element (r, p),
// zero for the rows that fill up the last panel. Element (r, p) is in[r * row + p * step]; either
// row or step is 1.
template <int Width, class T>
SPILLWAY_INLINE void pack_panels(const T* in, int64_t row, int64_t step, int64_t rows, int64_t k,
                                 float* out) {
  for (int64_t first = 0; first < rows; first += Width, out += k * Width) {
    const int64_t here = std::min<int64_t>(Width, rows - first);
    const T* from = in + first * row;
    if (step == 1) {
      transpose(from, row, here, k, out, Width, Width);
    } else if (here == Width) {
      for (int64_t p = 0; p < k; ++p)
        copy_row<Width>(from + p * step, out + p * Width);
    } else {
      for (int64_t p = 0; p < k; ++p) {
        for (int64_t r = 0; r < Width; ++r)
          out[p * Width + r] = r < here ? to_float(from[p * step + r]) : 0.f;
      }
    }
  }
}

}  // namespace spillway
