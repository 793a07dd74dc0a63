// Parts of the CPU executor by themselves: progress, pacing, stamps, memory, digests.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cpu/available_memory.h"
#include "harness/digest.h"
#include "harness/cpu/pacer.h"
#include "harness/cpu/progress.h"
#include "harness/stamps.h"
#include "harness/error.h"
#include "tests/harness/support_cpu.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ThreadsProgress, WhatWasWrittenBeforeAdvancingIsSeenAfterWaiting) {
  constexpr int64_t rounds = 2000;
  Progress ping, pong;
  int64_t value = 0;  // written by one side, then the other, with nothing but Progress between
  std::thread other([&] {
    for (int64_t i = 1; i <= rounds; ++i) {
      ping.wait_for(i, Lane::d2h);
      value += 1;
      pong.advance_to(i);
    }
  });
  for (int64_t i = 1; i <= rounds; ++i) {
    value += 1;
    ping.advance_to(i);
    if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    pong.wait_for(i, Lane::compute);
    ASSERT_EQ(value, 2 * i);
  }
  other.join();
}

TEST(ThreadsProgress, SeveralLanesWaitForDifferentTargets) {
  Progress progress;
  std::atomic<int> served{0};
  std::thread near([&] { progress.wait_for(3, Lane::d2h), ++served; });
  std::thread far([&] { progress.wait_for(1000, Lane::h2d), ++served; });
  for (int64_t i = 1; i <= 999; ++i)
    progress.advance_to(i);
  near.join();
  EXPECT_EQ(served, 1);
  progress.advance_to(1000);
  far.join();
  EXPECT_EQ(served, 2);
}

TEST(ThreadsProgress, StoppingReleasesAWaiterThatCannotBeServed) {
  Progress progress;
  progress.advance_to(5);
  std::thread waiter([&] { EXPECT_THROW(progress.wait_for(6, Lane::d2h), LaneStopped); });
  progress.stop();
  waiter.join();
  EXPECT_NO_THROW(progress.wait_for(5, Lane::d2h));
  EXPECT_THROW(progress.wait_for(7, Lane::d2h), LaneStopped);
}

// Seconds that `copies` copies of `bytes` take on one lane; what arrived is compared.
double timed_copies(Pacer pacer, int64_t bytes, int copies) {
  std::vector<unsigned char> from(static_cast<size_t>(bytes)), to(from.size());
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<unsigned char>(i * 31 + 7);
  const int64_t begin = now_ns();
  for (int i = 0; i < copies; ++i)
    pacer.copy(to.data(), from.data(), bytes, i == 0);
  const double seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  EXPECT_EQ(from, to);
  return seconds;
}

TEST(CpuPacer, MovesAllBytesAndNeverFasterThanTheLink) {
  EXPECT_GE(timed_copies({1e9, 1}, 3 * 1048576 + 5, 4), 4 * (3 * 1048576 + 5) / 1e9);
  EXPECT_GE(timed_copies({100e6, 1}, 12345, 20), 20 * 12345 / 100e6);
  EXPECT_GE(timed_copies({1e9, 1}, 1, 1), 1e-9);
}

TEST(CpuPacer, SlowCopiesTakeTheirMultipleWithAndWithoutALink) {
  EXPECT_GE(timed_copies({1e9, 5}, 1048577, 2), 2 * 5 * 1048577 / 1e9);
  EXPECT_GE(timed_copies({0, 100}, 7, 3), 3 * 100 * 20e-6);  // 20 us is the shortest unslowed copy
}

TEST(CpuPacer, ASlowCopyReadsItsSecondHalfLate) {
  std::vector<unsigned char> from(1000, 1), to(1000, 0);
  std::thread copy([&] { Pacer(1000 / 10e-3, 10).copy(to.data(), from.data(), 1000, true); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  std::fill(from.begin(), from.end(), 2);
  copy.join();
  EXPECT_EQ(to.front(), 1);
  EXPECT_EQ(to.back(), 2);
}

TEST(CpuSlotStamps, AReloadIsFreshOnlyAfterItsOwnWriteOfThisStep) {
  const OffloadStack stack(3, 8);
  SlotStamps stamps(stack.schedule.program);
  const int forward = 1, backward = 3, copy = 0;
  EXPECT_FALSE(stamps.fresh(backward, copy, 0, 0));
  stamps.written(forward, copy, 2, 0);
  EXPECT_TRUE(stamps.fresh(backward, copy, 0, 0));   // reads slot 2
  EXPECT_FALSE(stamps.fresh(backward, copy, 1, 0));  // slot 1 is still to come
  EXPECT_FALSE(stamps.fresh(backward, copy, 0, 1));  // last step's value
  stamps.written(forward, copy, 2, 1);
  EXPECT_TRUE(stamps.fresh(backward, copy, 0, 1));
  EXPECT_FALSE(stamps.fresh(backward, copy, 0, 0));  // overwritten too early
}

TEST(CpuSlotStamps, ASlotWrittenTwiceInAStepNeedsTheLastWriteBefore) {
  OffloadStack stack(3, 8);
  Program program = stack.schedule.program;
  program.at(stack.host).slices = 2;  // a ring: slot 0 holds iteration 0, then 2
  program.at(stack.host).ring = true;
  SlotStamps stamps(program);
  stamps.written(1, 0, 0, 0);
  EXPECT_FALSE(stamps.fresh(3, 0, 0, 0));  // means iteration 2, finds 0
  stamps.written(1, 0, 2, 0);
  EXPECT_TRUE(stamps.fresh(3, 0, 0, 0));
}

TEST(CpuMemory, GrowsKeepsWhatItHasAndRefusesTheImpossible) {
  CpuMemory memory;
  memory.reserve(1000, 0);
  EXPECT_GE(memory.device_reserved(), 1000);
  EXPECT_EQ(memory.host_reserved(), 0);
  std::byte* small = memory.device();
  memory.reserve(10, 5000);
  EXPECT_EQ(memory.device(), small);
  EXPECT_GE(memory.host_reserved(), 5000);
  memory.reserve(memory.device_reserved() + 1, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.device()) % 4096, 0U);
  memory.device()[memory.device_reserved() - 1] = std::byte{1};
  const int64_t petabyte = int64_t{1} << 50;
  EXPECT_THAT([&] { memory.reserve(petabyte, 0); },
              ThrowsMessage<RunError>(testing::AllOf(HasSubstr(text(petabyte, " bytes wanted")),
                                                     HasSubstr("available"))));
}

TEST(CpuMemory, SomethingIsAvailableAndLessThanTheMachineHas) {
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_LT(available_memory_bytes(), free_memory_bytes("/"));
}

// A root directory with files of our choice.
class FakeRoot : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root = std::filesystem::temp_directory_path() /
           text("spillway_", test->name(), "_",
                std::chrono::steady_clock::now().time_since_epoch().count());
    file("proc/meminfo", "MemTotal:  9000 kB\nMemFree:  100 kB\nMemAvailable:   8000 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void file(const std::string& path, const std::string& content) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << content;
  }
  std::filesystem::path root;
};
using CpuMemoryFiles = FakeRoot;

TEST_F(CpuMemoryFiles, WithoutCgroupsWhatTheKernelCallsAvailable) {
  EXPECT_EQ(free_memory_bytes(root), 8000 * 1024);
}

TEST_F(CpuMemoryFiles, Version2TakesTheTightestOfGroupAndParents) {
  file("proc/self/cgroup", "0::/outer/inner\n");
  file("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  file("sys/fs/cgroup/outer/inner/memory.current", "1000\n");
  file("sys/fs/cgroup/outer/memory.max", "5000000\n");
  file("sys/fs/cgroup/outer/memory.current", "2000000\n");
  file("sys/fs/cgroup/outer/memory.stat", "anon 5\nfile 900000\ninactive_file 400000\n");
  EXPECT_EQ(free_memory_bytes(root), 5000000 - (2000000 - 400000));
}

TEST_F(CpuMemoryFiles, Version1InAContainerThatSeesOnlyItsOwnRoot) {
  file("proc/self/cgroup", "7:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000\n");
  file("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
  file("sys/fs/cgroup/memory/memory.stat", "cache 7\ntotal_inactive_file 250000\n");
  EXPECT_EQ(free_memory_bytes(root), 3000000 - 750000);
}

TEST_F(CpuMemoryFiles, AGroupOverItsLimitLeavesNothing) {
  file("proc/self/cgroup", "0::/\n");
  file("sys/fs/cgroup/memory.max", "1000\n");
  file("sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(free_memory_bytes(root), 0);
}

std::string digest(const std::vector<std::vector<std::byte>>& pieces, int threads) {
  ThreadPool pool(threads);
  const std::vector<std::span<const std::byte>> spans(pieces.begin(), pieces.end());
  return hex(digest_of(spans, pool));
}

TEST(CpuDigest, DependsOnEveryBitOnOrderAndOnBordersButNotOnThreads) {
  std::vector<std::byte> bytes(3 * 1048576 + 13);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 2654435761U >> 13);
  const std::string whole = digest({bytes}, 2);
  EXPECT_EQ(whole.size(), 16U);
  EXPECT_EQ(digest({bytes}, 1), whole);
  EXPECT_EQ(digest({bytes}, 3), whole);
  for (const size_t at : {size_t{0}, size_t{31}, size_t{1048576}, bytes.size() - 1}) {
    for (const unsigned bit : {0U, 7U}) {
      auto changed = bytes;
      changed[at] ^= static_cast<std::byte>(1U << bit);
      EXPECT_NE(digest({changed}, 1), whole) << at << " " << bit;
    }
  }
  const std::vector<std::byte> head(bytes.begin(), bytes.begin() + 1000);
  const std::vector<std::byte> tail(bytes.begin() + 1000, bytes.end());
  EXPECT_NE(digest({head, tail}, 1), whole);
  EXPECT_NE(digest({head, tail}, 1), digest({tail, head}, 1));
  EXPECT_NE(digest({std::vector<std::byte>(8)}, 1), digest({std::vector<std::byte>(9)}, 1));
}

TEST(CpuDigest, HexHasSixteenDigits) {
  EXPECT_EQ(hex(0), "0000000000000000");
  EXPECT_EQ(hex(0x0123456789abcdefU), "0123456789abcdef");
}

}  // namespace
}  // namespace spillway
