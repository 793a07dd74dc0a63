// The portable product: tiles of c in fp32, k in blocks, both operands packed into panels (and
// converted) block by block. Blocking after Goto and van de Geijn, "Anatomy of High-Performance
// Matrix Multiplication": a panel of B in L1, a block of A in L2.
#include "harness/ops/matmul.h"
#include "harness/ops/operands.h"
#include "harness/ops/pack.h"
#include "harness/ops/register_tile.h"

namespace spillway {
namespace {

// 256 x 16 floats of B are 16 KiB and 192 x 256 of A 192 KiB. Processors with AVX-512 have L2 caches
// of 1 to 2 MiB and read B from there fast enough: half as many passes over C win (by 14 % on
// Emerald Rapids).
template <class I>
constexpr int64_t k_block = I::lanes >= 16 ? 512 : 256;
constexpr int64_t most_k = 512;
constexpr int64_t m_block = 2 * common_tile;
constexpr int64_t most_m = portable_most_m, most_n = portable_most_n;
static_assert(most_m % common_tile == 0);

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Scratch of one worker, see row_scratch.
struct Scratch {
  float *a, *b, *c;
};

template <class T, class I>
SPILLWAY_INLINE void one_tile(const Product& q, const Scratch& scratch, int64_t c_row,
                              bool accumulate, I isa) {
  const T *a = static_cast<const T*>(q.a), *b = static_cast<const T*>(q.b);
  for (int64_t p = 0; p < q.k; p += k_block<I>) {
    const int64_t k = std::min(k_block<I>, q.k - p);
    pack_panels<I::columns>(b + p * q.b_step, q.b_column, q.b_step, q.n, k, scratch.b);
    for (int64_t i = 0; i < q.m; i += m_block) {
      const int64_t m = std::min(m_block, q.m - i);
      pack_panels<I::rows>(a + i * q.a_row + p * q.a_step, q.a_row, q.a_step, m, k, scratch.a);
      tile_product(m, q.n, k, {scratch.a, k * I::rows, 1, I::rows},
                   {scratch.b, k * I::columns, 1, I::columns}, scratch.c + i * c_row, c_row,
                   accumulate || p > 0, isa);
    }
  }
}

}  // namespace

void tile_portable(const Product& q, int64_t c_row, bool accumulate) {
  const int64_t row = round_up(q.n, common_tile / 3);  // of c in scratch
  const Scratch scratch{row_scratch(0, m_block * most_k), row_scratch(1, most_k * most_n),
                        row_scratch(2, most_m * most_n)};
  simd([&](auto isa) SPILLWAY_SIMD {
    for (int64_t i = 0; accumulate && i < q.m; ++i)
      load(q.c, q.out, i * c_row, q.n, scratch.c + i * row);
    if (q.in == DType::f32) {
      one_tile<float>(q, scratch, row, accumulate, isa);
    } else {
      one_tile<Bf16>(q, scratch, row, accumulate, isa);
    }
    for (int64_t i = 0; i < q.m; ++i)
      store(q.c, q.out, i * c_row, q.n, scratch.c + i * row);
  });
}

void product_portable(const Product& whole, ThreadPool& pool) {
  const Tiling tiles = tiling(whole.m, whole.n, most_m, most_n, common_tile / 3);
  pool.run(tiles.count(), [&](int64_t index, int) {
    tile_portable(tile_of(whole, tiles, index), whole.n, false);
  });
}

}  // namespace spillway
