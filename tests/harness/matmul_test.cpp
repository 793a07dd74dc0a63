// The paths of matmul one by one, their tiles, and that the library starts no threads of its own.
#include "harness/ops/matmul.h"

#include <filesystem>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "harness/ops/floats.h"

namespace spillway {
namespace {

// Memory of a product with small integers as values: sums are exact in fp32 in any order (and tell
// bf16's rounding of the output apart), so paths must agree bit for bit.
struct Operands {
  std::vector<float> a, b, c;  // room for either dtype
  Product product;

  Operands(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, DType in, DType out)
      : a(static_cast<size_t>(m * k)),
        b(static_cast<size_t>(k * n)),
        c(static_cast<size_t>(m * n)) {
    std::mt19937 random(7);
    for (std::vector<float>* x : {&a, &b}) {
      std::vector<float> values(x->size());
      for (float& value : values)
        value = static_cast<float>(static_cast<int>(random() % 9) - 4);
      store(x->data(), in, 0, static_cast<int64_t>(values.size()), values.data());
    }
    product = {
        .m = m, .n = n, .k = k, .a = a.data(), .b = b.data(), .c = c.data(), .in = in, .out = out};
    product.a_row = transpose_a ? 1 : k;
    product.a_step = transpose_a ? m : 1;
    product.b_step = transpose_b ? 1 : n;
    product.b_column = transpose_b ? k : 1;
  }

  template <class Path>
  std::vector<float> run(const Path& path, ThreadPool& pool) {
    std::fill(c.begin(), c.end(), -77.f);
    path(product, pool);
    std::vector<float> values(c.size());
    load(c.data(), product.out, 0, static_cast<int64_t>(c.size()), values.data());
    return values;
  }
};

struct Size {
  int64_t m, n, k;
};

class ThreadsMatmul : public testing::TestWithParam<int> {};

TEST_P(ThreadsMatmul, PathsAgreeExactlyOnIntegers) {
  ThreadPool pool(3);
  const bool transpose_a = (GetParam() & 1) != 0, transpose_b = (GetParam() & 2) != 0;
  for (const DType in : {DType::f32, DType::bf16}) {
    for (const DType out : {DType::f32, DType::bf16}) {
      for (const Size s :
           {Size{1, 1, 1}, {2, 3, 4}, {13, 33, 257}, {400, 520, 30}, {97, 1100, 64}}) {
        Operands x(s.m, s.n, s.k, transpose_a, transpose_b, in, out);
        const auto plain = x.run(product_plain, pool);
        EXPECT_EQ(plain, x.run(product_portable, pool)) << s.m << 'x' << s.n << 'x' << s.k;
        const bool library = onednn_usable(in);
        EXPECT_TRUE(!library || plain == x.run(product_onednn, pool))
            << s.m << "x" << s.n << "x" << s.k;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transposes, ThreadsMatmul, testing::Values(0, 1, 2, 3));

// Every element belongs to one tile.
TEST(MatmulTiles, CoverTheOutputOnce) {
  for (const Size s : {Size{1, 1, 0},
                       {2048, 1024, 0},
                       {64, 1024, 0},
                       {2048, 8016, 0},
                       {5, 70000, 0},
                       {16384, 53248, 0}}) {
    const Tiling tiles = tiling(s.m, s.n, 384, 512, 32);
    EXPECT_LE(tiles.tile_m, 384);
    EXPECT_LE(tiles.tile_n, 512);
    Product whole{.m = s.m, .n = s.n, .k = 1};
    whole.a_row = whole.b_column = 1;
    int64_t covered = 0;
    for (int64_t i = 0; i < tiles.count(); ++i) {
      const Product tile = tile_of(whole, tiles, i);
      ASSERT_GT(tile.m, 0);
      ASSERT_GT(tile.n, 0);
      covered += tile.m * tile.n;
      const int64_t first = (reinterpret_cast<intptr_t>(tile.c)) / 4;  // c starts at null
      EXPECT_EQ(first, i / tiles.columns * tiles.tile_m * s.n + i % tiles.columns * tiles.tile_n);
    }
    EXPECT_EQ(covered, s.m * s.n);
  }
}

TEST(Matmul, SaysHowItComputes) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp8}) {
    const std::string path = matmul_path(precision);
    EXPECT_TRUE(path == "onednn" || path == "plain" || path.starts_with("portable/")) << path;
  }
}

int64_t threads_of_this_process() {
  int64_t count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

TEST(Matmul, LibraryStartsNoThreads) {
  if (!onednn_usable(DType::f32)) GTEST_SKIP() << "no oneDNN";
  ThreadPool pool(2);
  const int64_t before = threads_of_this_process();
  Operands x(800, 700, 300, false, true, DType::f32, DType::f32);
  x.run(product_onednn, pool);
  EXPECT_EQ(threads_of_this_process(), before);
}

}  // namespace
}  // namespace spillway
