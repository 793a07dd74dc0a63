// Sums over rows, for gradients of what every row shares.
#pragma once

#include <vector>

#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {

// out[width] = sum over rows of what add_rows(first, count, sum) adds to sum[width] for its rows.
// Rows are cut into blocks by the shape alone; each has its own sum, and the sums are added in
// order, so that no thread count changes a bit.
template <class AddRows>
void sum_columns(ThreadPool& pool, int64_t rows, int64_t width, const Buffer& out,
                 const AddRows& add_rows) {
  const int64_t most_blocks = 64;
  const int64_t block = std::max(rows_per_block(width), (rows + most_blocks - 1) / most_blocks);
  const int64_t blocks = (rows + block - 1) / block;
  std::vector<float> partial(static_cast<size_t>(blocks * width), 0.f);
  for_blocks(pool, rows, block, [&](int64_t first, int64_t count) {
    add_rows(first, count, partial.data() + first / block * width);
  });
  for_blocks(pool, width, chunk, [&](int64_t first, int64_t count) {
    simd([&](auto) SPILLWAY_SIMD {
      float sum[chunk] = {};
      for (int64_t b = 0; b < blocks; ++b) {
        const float* part = partial.data() + b * width + first;
        for (int64_t d = 0; d < count; ++d)
          sum[d] += part[d];
      }
      store(out, first, count, sum);
    });
  });
}

}  // namespace spillway
