// Sums over rows in a fixed order and without atomics: rows are cut into parts by the shape alone,
// each part gives a row of partial sums, and those are added in their order.
#pragma once

#include <algorithm>

#include "harness/cuda/ops/call.cuh"

namespace spillway {

// How rows are cut. Enough parts to fill a GPU (at least `wanted`, if there are as many rows), so
// few that the partial sums stay small beside the rows.
struct RowParts {
  int64_t rows, width, part_rows, parts;

  RowParts(int64_t row_count, int64_t row_width, int64_t wanted)
      : rows(row_count),
        width(row_width),
        part_rows(std::max<int64_t>(1, row_count / wanted)),
        parts(parts_of(row_count, part_rows)) {}
  int64_t workspace_bytes() const { return parts * width * 4; }
};

// sums[width] = the rows of partial[parts, width] in their order: eight runs of them beside each
// other, then those.
struct AddParts {
  static constexpr int threads = 256;
  static constexpr int columns = 32, runs = threads / columns;
  const float* partial;
  int64_t parts, width;
  View sums;

  AddParts(const float* partial_sums, const RowParts& cut, const Buffer& to)
      : partial(partial_sums), parts(cut.parts), width(cut.width), sums(view_of(to)) {}
  int64_t tiles() const { return parts_of(width, columns); }
  static int64_t scratch_bytes() { return threads * 4; }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    float* of_run = reinterpret_cast<float*>(group.scratch());
    const int run = group.rank() / columns;
    const int64_t column = tile * columns + group.rank() % columns,
                  in_run = (parts + runs - 1) / runs, begin = run * in_run,
                  end = begin + in_run < parts ? begin + in_run : parts;
    float sum = 0;
    if (column < width) {
#ifdef __CUDACC__
#pragma unroll 8
#endif
      for (int64_t p = begin; p < end; ++p)
        sum += partial[p * width + column];
    }
    of_run[group.rank()] = sum;
    group.sync();
    if (run != 0 || column >= width) return;
    for (int r = 1; r < runs; ++r)
      sum += of_run[r * columns + group.rank()];
    store_one(sums, column, sum);
  }
};

}  // namespace spillway
