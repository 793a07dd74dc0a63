// The warp's part of a bf16 product: 64 x 32 sums over 32 steps, from panels in shared memory, by
// ldmatrix and mma.sync.m16n8k16 (PTX ISA 9.7.14), which every GPU from 8.0 on has. On the host the
// same fragments are put together element by element as the PTX manual lays them out, so that only
// the instructions themselves go untested there.
#pragma once

#include "harness/cuda/ops/call.cuh"

namespace spillway {

inline constexpr int panel_side = 128, panel_steps = 32;

// 128 x 32 elements of an operand. along_step: 128 lines of 32, else 32 lines of 128; lines are padded
// so that eight of them, 16 bytes each, lie in different banks.
struct Panel {
  static constexpr int along_stride = panel_steps + 8, across_stride = panel_side + 8;
  static constexpr int elements = panel_side * along_stride;  // the larger of the two
  uint16_t* data;
  bool along_step;

  SPILLWAY_DEVICE uint16_t* at(int i, int p) const {
    return data + (along_step ? i * along_stride + p : p * across_stride + i);
  }
};

// Where lane l points ldmatrix for a 16 x 16 fragment at (i, p): matrix l / 8, line l % 8. The four
// matrices go by rows first for A, by steps first for B, as their registers do.
SPILLWAY_DEVICE inline const uint16_t* fragment_line(const Panel& panel, bool of_a, int i, int p,
                                                     int lane) {
  const int line = lane % 8, matrix = lane / 8;
  const int rows = of_a ? matrix % 2 * 8 : matrix / 2 * 8,
            steps = of_a ? matrix / 2 * 8 : matrix % 2 * 8;
  return panel.along_step ? panel.at(i + rows + line, p + steps)
                          : panel.at(i + rows, p + steps + line);
}

struct WarpSums {
  float at[4][4][4] = {};  // 16 rows, 8 columns, and the thread's four elements of those

  // Of element e: (row, column) in the warp's 64 x 32.
  SPILLWAY_DEVICE static int row(int lane, int m, int e) { return m * 16 + lane / 4 + e / 2 * 8; }
  SPILLWAY_DEVICE static int column(int lane, int n, int e) { return n * 8 + lane % 4 * 2 + e % 2; }
};

#ifdef __CUDACC__

__device__ inline void load_fragment(const Panel& panel, bool of_a, int i, int p, int lane,
                                     uint32_t (&r)[4]) {
  const auto line =
      static_cast<uint32_t>(__cvta_generic_to_shared(fragment_line(panel, of_a, i, p, lane)));
  if (panel.along_step) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(line)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(line)
                 : "memory");
  }
}

__device__ inline void multiply_fragments(const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                          float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void add_panels(const Panel& a, const Panel& b, int row, int column, int lane,
                                  WarpSums& sums) {
  SPILLWAY_UNROLL
  for (int p = 0; p < panel_steps; p += 16) {
    uint32_t of_a[4][4], of_b[2][4];
    SPILLWAY_UNROLL
    for (int m = 0; m < 4; ++m)
      load_fragment(a, true, row + m * 16, p, lane, of_a[m]);
    SPILLWAY_UNROLL
    for (int n = 0; n < 2; ++n)
      load_fragment(b, false, column + n * 16, p, lane, of_b[n]);
    SPILLWAY_UNROLL
    for (int m = 0; m < 4; ++m) {
      SPILLWAY_UNROLL
      for (int n = 0; n < 4; ++n)
        multiply_fragments(of_a[m], of_b[n / 2][n % 2 * 2], of_b[n / 2][n % 2 * 2 + 1],
                           sums.at[m][n]);
    }
  }
}

// 16 bytes to shared memory without passing through registers, zeros from `bytes` on.
__device__ inline void copy_async(uint16_t* to, const uint16_t* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(bytes)
               : "memory");
}
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most `left` of the thread's groups of copies are under way.
template <int left>
__device__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

#else

// Half h of register r of a lane, as ldmatrix leaves it there: line lane / 4 of matrix r, elements
// 2 (lane % 4) + h, or transposed.
inline float fragment_element(const Panel& panel, bool of_a, int i, int p, int lane, int r, int h) {
  const int line = panel.along_step ? lane / 4 : lane % 4 * 2 + h,
            element = panel.along_step ? lane % 4 * 2 + h : lane / 4;
  const uint16_t bits = fragment_line(panel, of_a, i, p, r * 8 + line)[element];
  return float_of_bits(static_cast<uint32_t>(bits) << 16);
}

inline void add_panels(const Panel& a, const Panel& b, int row, int column, int lane,
                       WarpSums& sums) {
  float of_a[4][2][panel_steps], of_b[4][2][panel_steps];  // the thread's two rows, two columns
  for (int step = 0; step < panel_steps; ++step) {
    const int p = step / 16 * 16, half = step % 16 / 8, pair = step % 8 / 2, h = step % 2;
    for (int m = 0; m < 4; ++m)
      for (int low = 0; low < 2; ++low) {
        of_a[m][low][step] =
            fragment_element(a, true, row + m * 16, p, lane / 4 * 4 + pair, low + half * 2, h);
        const int n = m, holder = (lane % 4 * 2 + low) * 4 + pair;
        of_b[n][low][step] =
            fragment_element(b, false, column + n / 2 * 16, p, holder, n % 2 * 2 + half, h);
      }
  }
  for (int m = 0; m < 4; ++m)
    for (int n = 0; n < 4; ++n)
      for (int e = 0; e < 4; ++e)
        for (int step = 0; step < panel_steps; ++step)
          sums.at[m][n][e] += of_a[m][e / 2][step] * of_b[n][e % 2][step];
}

inline void copy_async(uint16_t* to, const uint16_t* from, int bytes) {
  std::memset(to, 0, 16);
  std::memcpy(to, from, static_cast<size_t>(bytes));
}
inline void end_copies() {}
template <int left>
void await_copies() {}

#endif

}  // namespace spillway
