// c[m, n] = a[m, k] b[k, n] of bf16 operands on tensor cores, by tiles of 128 x 128: three panels of
// each operand in shared memory, two of them on their way while one is multiplied. Sums are added in
// the order of steps, whatever else runs.
#pragma once

#include <type_traits>

#include "harness/cuda/ops/product_tile.cuh"
#include "harness/cuda/ops/tensor_core.cuh"

namespace spillway {

struct TensorProduct {
  static constexpr int threads = tile_threads, side = panel_side, stages = 3;
  static constexpr int blocks_at_once = 2;  // on a processor at once: 128 registers a thread
  static constexpr int stage_elements = 2 * Panel::elements;
  Matrix a, b, c;
  int64_t m, n, k;

  static int64_t scratch_bytes() { return int64_t{stages} * stage_elements * 2; }
  static bool takes(const Buffer& a, const Buffer& b) {
    return a.dtype == DType::bf16 && b.dtype == DType::bf16;
  }

  // What one thread brings of an operand's panels, two chunks of eight elements each, worked out once
  // a tile: where they are at step 0, and how many of their elements the operand has beside the steps.
  struct Feed {
    static constexpr int chunks = panel_side * panel_steps / pack_width / threads;
    const Matrix& x;
    const uint16_t* data;
    int64_t column;  // of the first chunk; the second is lines further
    int line, place, room[chunks];
    const uint16_t* from[chunks];
    bool along_step, whole;  // whole: chunks lie at multiples of 16 bytes

    // Rows or columns i .. i + 127 of `size`.
    SPILLWAY_DEVICE Feed(const Matrix& of, bool along, int64_t size, int64_t i, int rank)
        : x(of),
          data(static_cast<const uint16_t*>(of.view.data) + of.first),
          along_step(along),
          whole(of.view.aligned && ((of.first | of.stride) & (pack_width - 1)) == 0) {
      const int in_line = (along ? panel_steps : panel_side) / pack_width;
      line = rank / in_line;
      place = rank % in_line * pack_width;
      column = along ? place : i + place;
      SPILLWAY_UNROLL
      for (int c = 0; c < chunks; ++c) {
        const int64_t row = (along ? i : 0) + line_of(c), left = size - (along ? row : column);
        room[c] = left <= 0 ? 0 : along || left > pack_width ? pack_width : static_cast<int>(left);
        from[c] = room[c] == 0 ? data : data + x.rows(row) * x.stride + column;
      }
    }
    SPILLWAY_DEVICE int line_of(int chunk) const {
      return line + chunk * (threads * pack_width / (along_step ? panel_steps : panel_side));
    }

    // Steps p .. p + 31 of k; zeros beyond.
    SPILLWAY_DEVICE void fill(const Panel& panel, int64_t p, int64_t k) const {
      SPILLWAY_UNROLL
      for (int c = 0; c < chunks; ++c) {
        const int64_t left = k - p - (along_step ? place : line_of(c));
        int count = left <= 0 ? 0 : room[c];
        if (along_step && left < count) count = static_cast<int>(left);
        const int64_t ahead = along_step ? p : p * x.stride;
        const uint16_t* at = x.rows.block == 0 || along_step
                                 ? from[c] + ahead
                                 : data + x.rows(p + line_of(c)) * x.stride + column;
        if (count <= 0) at = data;
        uint16_t* to = along_step ? panel.at(line_of(c), place) : panel.at(place, line_of(c));
        if (whole) {
          copy_async(to, at, 2 * (count < 0 ? 0 : count));
        } else {
          SPILLWAY_UNROLL
          for (int e = 0; e < pack_width; ++e)
            to[e] = e < count ? at[e] : uint16_t{0};
        }
      }
    }
  };

  template <class Group>
  SPILLWAY_DEVICE void tile(const Group& group, int64_t row, int64_t column) const {
    auto* scratch = reinterpret_cast<uint16_t*>(group.scratch());
    const auto panel_a = [&](int64_t step) {
      return Panel{scratch + step % stages * stage_elements, !a.transposed};
    };
    const auto panel_b = [&](int64_t step) {
      return Panel{scratch + step % stages * stage_elements + Panel::elements, b.transposed};
    };
    const Feed feed_a(a, !a.transposed, m, row, group.rank()),
        feed_b(b, b.transposed, n, column, group.rank());
    const int64_t steps = (k + panel_steps - 1) / panel_steps;
    const auto fetch = [&](int64_t step) {
      if (step < steps) {
        feed_a.fill(panel_a(step), step * panel_steps, k);
        feed_b.fill(panel_b(step), step * panel_steps, k);
      }
      end_copies();
    };
    // Eight warps, two by four.
    const int lane = group.rank() % 32, warp = group.rank() / 32, warp_row = warp / 4 * 64,
              warp_column = warp % 4 * 32;
    WarpSums sums;
    for (int64_t step = 0; step < stages - 1; ++step)
      fetch(step);
    for (int64_t step = 0; step < steps; ++step) {
      await_copies<stages - 2>();
      group.sync();  // this step's panels are there, and nobody reads the last one's any more
      fetch(step + stages - 1);
      add_panels(panel_a(step), panel_b(step), warp_row, warp_column, lane, sums);
    }
    await_copies<0>();
    store(row + warp_row, column + warp_column, lane, sums);
  }

  SPILLWAY_DEVICE void store(int64_t row, int64_t column, int lane, const WarpSums& sums) const {
    // A thread's two columns beside each other are one word of bf16.
    const bool in_pairs =
        c.view.aligned && c.view.dtype == DType::bf16 && ((c.first | c.stride) & 1) == 0;
    SPILLWAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      SPILLWAY_UNROLL
      for (int j = 0; j < 4; ++j) {
        SPILLWAY_UNROLL
        for (int e = 0; e < 4; e += 2) {
          const int64_t r = row + WarpSums::row(lane, i, e),
                        s = column + WarpSums::column(lane, j, e);
          if (r >= m || s >= n) continue;
          const int64_t at = c.index(r, s);
          if (in_pairs && s + 1 < n) {
            store_word(static_cast<uint16_t*>(c.view.data) + at,
                       bf16_pair(sums.at[i][j][e], sums.at[i][j][e + 1]));
          } else {
            store_one(c.view, at, sums.at[i][j][e]);
            if (s + 1 < n) store_one(c.view, at + 1, sums.at[i][j][e + 1]);
          }
        }
      }
    }
  }
};

// Calls with(product) for the product of these operands: on tensor cores where both are bf16.
template <class With>
void with_product(const Buffer& a, const Buffer& b, const TileProduct& product, const With& with) {
  if (TensorProduct::takes(a, b)) {
    with(TensorProduct{product.a, product.b, product.c, product.m, product.n, product.k});
  } else {
    with(product);
  }
}

}  // namespace spillway
