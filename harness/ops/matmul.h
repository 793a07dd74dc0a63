// Matrix products: how they are computed here, and the parts that matmul.cpp chooses from.
#pragma once

#include <cstdint>
#include <string>

#include "harness/ops.h"
#include "harness/thread_pool.h"

namespace spillway {

// onednn: the library's kernels, each worker single-threaded on its own tiles. portable: our own
// fp32 register tiles, bf16 converted while packing. plain: three loops, to compare with.
enum class MatmulPath : uint8_t { onednn, portable, plain };
const char* name_of(MatmulPath path);

// What matmuls of this precision use on this machine: "onednn", "portable" or "plain", with the
// instruction set of our own kernels ("portable/avx2"). The environment variable SPILLWAY_MATMUL
// (same words, without the set) forces a path; InputError if it names none or one that this machine
// does not have. Precisions below bf16 compute in bf16.
std::string matmul_path(Precision precision);

// c[m,n] = A[m,k] B[k,n], row-major c. Element (i, p) of A is a[i * a_row + p * a_step], (p, j) of
// B b[p * b_step + j * b_column]; one stride of each is 1. Strides in elements. a and b have one
// dtype.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  int64_t a_row = 0, a_step = 0, b_step = 0, b_column = 0;
  DType in = DType::f32, out = DType::f32;
};

// Tiles of c, the same for every thread count; k is never split between tiles.
struct Tiling {
  int64_t tile_m, tile_n, rows, columns;  // sizes; how many

  int64_t count() const { return rows * columns; }
};
// At most `most_m` x `most_n`, smaller while there are fewer than `wanted` tiles, multiples of
// `multiple` (rest at the end).
Tiling tiling(int64_t m, int64_t n, int64_t most_m, int64_t most_n, int64_t multiple,
              int64_t wanted = 24);
// One tile as a product of its own.
Product tile_of(const Product& whole, const Tiling& tiles, int64_t index);

// What this machine (or SPILLWAY_MATMUL) computes products of this dtype by.
MatmulPath path_for(DType in);
// The same for products by groups of rows, whose sizes are data: their pieces outweigh what fp32
// gains by the library, so fp32 takes the portable path unless SPILLWAY_MATMUL says otherwise.
MatmulPath path_for_groups(DType in);
// c = A B by that path.
void product(const Product& product, ThreadPool& pool);

void product_plain(const Product& product, ThreadPool& pool);
void product_portable(const Product& product, ThreadPool& pool);
// One tile by the calling worker: at most portable_most_m x portable_most_n. `c_row` is the row
// stride of c. accumulate: c += A B; c is f32.
inline constexpr int64_t portable_most_m = 384, portable_most_n = 512;
void tile_portable(const Product& tile, int64_t c_row, bool accumulate);

// Whether the library computes products of this dtype here and gets small ones right (tried once a
// process; a wrong result is reported on stderr).
bool onednn_usable(DType in);
void product_onednn(const Product& product, ThreadPool& pool);
// Whether tile_onednn takes this one: not bf16 out of f32, nor offsets beyond 32 bits.
bool onednn_fits(const Product& tile, int64_t c_row);
// As tile_portable, of any size. Code is generated for each shape and kept: callers have few.
void tile_onednn(const Product& tile, int64_t c_row, bool accumulate);

}  // namespace spillway
