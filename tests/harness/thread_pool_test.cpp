// The pool: every tile once, on legal workers, exceptions passed on, many short runs.
#include "harness/thread_pool.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace spillway {
namespace {

class ThreadsPool : public testing::TestWithParam<int> {};

TEST_P(ThreadsPool, RunsEveryTileOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (const int64_t count : {0, 1, 2, 3, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
    std::atomic<bool> legal{true};
    pool.run(count, [&](int64_t tile, int worker) {
      ++runs[static_cast<size_t>(tile)];
      if (worker < 0 || worker >= GetParam()) legal = false;
    });
    for (const auto& n : runs)
      EXPECT_EQ(n, 1);
    EXPECT_TRUE(legal);
  }
}

// What workers wrote is seen by the caller, and by the workers of the next run, without further
// locks.
TEST_P(ThreadsPool, OrdersRunsOneAfterAnother) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> values(64, 0);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> next(values.size());
    pool.run(64, [&](int64_t tile, int) {  // reads what another worker wrote in the round before
      next[static_cast<size_t>(tile)] = values[static_cast<size_t>(63 - tile)] + 1;
    });
    values = next;
  }
  for (const int64_t value : values)
    EXPECT_EQ(value, 300);
}

TEST_P(ThreadsPool, RethrowsTheFirstException) {
  ThreadPool pool(GetParam());
  const auto fail = [&] {
    pool.run(100, [](int64_t tile, int) {
      if (tile == 3) throw std::runtime_error("tile 3");
    });
  };
  EXPECT_THROW(fail(), std::runtime_error);
  std::atomic<int> after{0};
  pool.run(10, [&](int64_t, int) { ++after; });
  EXPECT_EQ(after, 10) << "the pool works on";
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadsPool, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, RefusesNestedRuns) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.run(2, [&](int64_t, int) { pool.run(2, [](int64_t, int) {}); }),
               std::logic_error);
  EXPECT_THROW(ThreadPool(0), std::logic_error);
}

TEST(ThreadPool, FindsAtLeastOneCpu) { EXPECT_GE(usable_cpus(), 1); }

}  // namespace
}  // namespace spillway
