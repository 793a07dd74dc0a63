// How a quantised tensor lies in memory. One piece: codes, then block scales (NVFP4), then the tensor's
// scale; what cuBLASLt reads, so that every executor has the same bytes.
#pragma once

#include <cstdint>

#include "harness/program.h"

namespace spillway {

// e4m3, e5m2: a byte a code, row after row, and one scale: value = code x scale.
// nvfp4: two codes (E2M1) a byte, the even column in the low half, and a scale (E4M3, never
// negative) for 16 of a row: value = code x block scale x scale. nvfp4_rows: the same of each matrix
// transposed. Rows are padded to whole blocks. Formats: OCP Microscaling Formats (MX) v1.0 for E2M1,
// OCP 8-bit Floating Point v1.0 for E4M3 and E5M2.
struct NarrowLayout {
  static constexpr int64_t block = 16;          // values that share a scale
  static constexpr int64_t alignment = 16;      // bytes, of each part
  int64_t matrices = 1, rows = 0, columns = 0;  // as stored; scales lie along columns
  int64_t pitch = 0;                            // columns with padding
  int64_t code_bytes = 0;
  int64_t scale_rows = 0, scale_columns = 0;  // of one matrix, whole tiles; 0: no block scales
  int64_t scales_at = 0, scale_at = 0;        // first byte of block scales, of the f32 scale
  int64_t bytes = 0;
};
// Of a slice of at least one dimension; those before the last two count matrices.
NarrowLayout narrow_layout(DType dtype, const Shape& shape);

// Place of the scale of block `column` of row `row` of one matrix: tiles of 128 x 4 scales, in them
// 32 rows of 4 x 4 (cuBLAS documentation, "1D block scaling factors layout").
int64_t block_scale_at(const NarrowLayout& layout, int64_t row, int64_t column);

}  // namespace spillway
