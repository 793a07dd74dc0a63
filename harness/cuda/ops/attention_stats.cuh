// The log-sum-exp between the op's order, [batch, seq, heads], and a library's, [batch, heads, seq].
#pragma once

#include "harness/cuda/ops/call.cuh"

namespace spillway {

// to[b, c, r] = from[b, r, c], by tiles of 32 x 32 through shared memory: both sides are read and
// written along memory.
struct TransposeStats {
  static constexpr int threads = 256, side = 32, stride = side + 1;
  int64_t batch, rows, columns;
  const float* from;
  float* to;

  static int64_t scratch_bytes() { return side * stride * 4; }
  int64_t tiles() const { return batch * parts_of(rows, side) * parts_of(columns, side); }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    auto* square = reinterpret_cast<float*>(group.scratch());
    const int64_t across = (columns + side - 1) / side, down = (rows + side - 1) / side,
                  column = tile % across * side, row = tile / across % down * side,
                  first = tile / across / down * rows * columns;
    const int lane = group.rank() % side, line = group.rank() / side;
    for (int i = line; i < side; i += threads / side)
      if (row + i < rows && column + lane < columns)
        square[i * stride + lane] = from[first + (row + i) * columns + column + lane];
    group.sync();
    for (int i = line; i < side; i += threads / side)
      if (column + i < columns && row + lane < rows)
        to[first + (column + i) * rows + row + lane] = square[lane * stride + i];
  }
};

}  // namespace spillway
