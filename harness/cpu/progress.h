// How far one lane has come: a counter that only grows, which other lanes can wait for.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>

#include "harness/ops.h"

namespace spillway {

// Thrown out of a wait when the run was stopped (another lane failed, or the executor goes away).
struct LaneStopped : std::exception {};

// One writer advances it, one thread per lane may wait. What was written before advance_to(n) is
// visible after wait_for(n). Waiting spins for a few hundred nanoseconds only: compute workers and
// copy threads share the cores.
class Progress {
 public:
  Progress();
  void advance_to(int64_t value);
  bool reached(int64_t value) const { return value_.load(std::memory_order_acquire) >= value; }
  // `waiter` is the lane whose thread waits. Throws LaneStopped.
  void wait_for(int64_t value, Lane waiter);
  // Releases every waiter, now and later, that is not yet served.
  void stop();

 private:
  static constexpr int64_t nothing = std::numeric_limits<int64_t>::max();
  void wake_waiters();

  alignas(64) std::atomic<int64_t> value_{0};
  std::atomic<bool> stopped_{false};
  // What each sleeping lane waits for, so that advancing wakes nobody too early: a wake-up costs
  // more than many of the steps that pass.
  std::array<std::atomic<int64_t>, lane_count> wanted_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace spillway
