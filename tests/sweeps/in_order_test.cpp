// Results come in order whatever order the work ends in, and the rows of a sweep do not depend on
// how many points are simulated at a time. The thread sanitizer runs these.
#include "sweeps/in_order.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sweeps/runner.h"
#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

TEST(ThreadsInOrder, TakesEveryResultOnceAndInOrder) {
  for (const int threads : {1, 2, 5, 64}) {
    std::vector<size_t> order;
    const auto work = [](size_t i) {
      // Earlier pieces take longer: they end in another order than they begin.
      std::this_thread::sleep_for(std::chrono::microseconds(i % 4 == 0 ? 500 : 0));
      return 10 * i;
    };
    InOrder<size_t>::run(40, threads, work, [&](size_t i, size_t result) {
      EXPECT_EQ(result, 10 * i);
      order.push_back(i);
    });
    ASSERT_EQ(order.size(), 40U) << threads;
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << threads;
  }
  InOrder<int>::run(
      0, 4, [](size_t) { return 0; }, [](size_t, int) { FAIL(); });
}

TEST(ThreadsInOrder, RunsAheadOfWhatIsTakenByAFewPiecesOnly) {
  constexpr int threads = 3;
  std::atomic<size_t> begun = 0;
  const auto work = [&](size_t) { return ++begun; };
  InOrder<size_t>::run(200, threads, work,
                       [&](size_t i, size_t) { EXPECT_LE(begun.load(), i + 1 + 4 * threads); });
  EXPECT_EQ(begun.load(), 200U);
}

TEST(ThreadsInOrder, WhatIsThrownEndsTheRest) {
  for (const int threads : {1, 4}) {
    size_t taken = 0;
    const auto work = [](size_t i) {
      if (i == 7 || i == 9) throw std::runtime_error("piece " + std::to_string(i));
      return i;
    };
    const auto take = [&](size_t, size_t) { ++taken; };
    try {
      InOrder<size_t>::run(30, threads, work, take);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "piece 7");
    }
    EXPECT_EQ(taken, 7U) << threads;
    const auto full = [](size_t i, size_t) {
      if (i == 3) throw std::runtime_error("the disk is full");
    };
    EXPECT_THROW(InOrder<size_t>::run(
                     30, threads, [](size_t i) { return i; }, full),
                 std::runtime_error);
  }
}

// Results, one that does not fit and one that cannot be built among them, and how the sweep went.
std::string rows_with(int jobs) {
  const ScratchDir scratch;
  const Sweep sweep = parse_sweep(R"({
    "name": "simulated", "title": "Simulated",
    "defaults": {"model": "llama-tiny", "executor": "sim", "devices": 8, "micro_batch": 1},
    "points": [
      {"label": "recomputed", "policy": "full"},
      {"label": "too large", "hbm": 1000},
      {"label": "no such name", "policy": "moe_mlpwo=device"},
      {"label": "moved", "policy": "qkv_proj_offloaded", "pipeline": true}],
    "axes": {"seq": [16, 24, 40], "lhs": ["on", "off"]}})",
                                  "simulated.json");
  Store store(scratch.path(), "simulated");
  std::string said;
  const int64_t failed = run_sweep(
      sweep, store,
      [&](int64_t done, int64_t, const std::string& next, double) {
        said += std::to_string(done) + " " + next + "\n";
      },
      jobs);
  EXPECT_EQ(failed, 6);
  return said + read_file(scratch.path() + "/results.jsonl");
}

TEST(ThreadsSweep, RowsDoNotDependOnTheNumberOfJobs) {
  const std::string one = rows_with(1);
  EXPECT_EQ(one, rows_with(2));
  EXPECT_EQ(one, rows_with(7));
}

}  // namespace
}  // namespace spillway
