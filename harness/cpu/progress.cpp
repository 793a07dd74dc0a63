// A counter with sleepers. Store, then look for sleepers, on one side; announce, then look at the
// counter, on the other: both sequentially consistent, so one of the two sees the other.
#include "harness/cpu/progress.h"

#include <algorithm>

namespace spillway {
namespace {

constexpr int spins = 64;  // loads: some hundred nanoseconds

}  // namespace

Progress::Progress() {
  for (auto& wanted : wanted_)
    wanted.store(nothing);
}

void Progress::advance_to(int64_t value) {
  value_.store(value);
  const bool wanted = std::any_of(wanted_.begin(), wanted_.end(),
                                  [&](const auto& target) { return target.load() <= value; });
  if (wanted) wake_waiters();
}

void Progress::wait_for(int64_t value, Lane waiter) {
  for (int spin = 0; spin < spins; ++spin) {
    if (reached(value)) return;
  }
  std::unique_lock lock(mutex_);
  auto& wanted = wanted_[static_cast<size_t>(waiter)];
  wanted.store(value);
  changed_.wait(lock, [&] { return value_.load() >= value || stopped_.load(); });
  wanted.store(nothing);
  if (value_.load() < value) throw LaneStopped();
}

void Progress::stop() {
  stopped_.store(true);
  wake_waiters();
}

void Progress::wake_waiters() {
  // Taking the lock orders this after a waiter's look at the counter and before its sleep's end.
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

}  // namespace spillway
