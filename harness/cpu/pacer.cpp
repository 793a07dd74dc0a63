// A token clock: every chunk has a due time that follows from the bytes before it, not from when
// the thread woke up, so that the rate holds exactly over any length.
#include "harness/cpu/pacer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include <sys/prctl.h>

namespace spillway {
namespace {

constexpr int64_t chunk_bytes = int64_t{1} << 20;
constexpr int64_t lateness_forgiven_ns = 1'000'000;
// A slowed copy counts as lasting at least this long: copies of tiny tests take no time at all.
constexpr int64_t shortest_slowed_ns = 20'000;

void sleep_until(int64_t due) {
  if (now_ns() >= due) return;
  const timespec when = {static_cast<time_t>(due / 1'000'000'000), due % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR) {
  }
}

void move(std::byte* to, const std::byte* from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

int64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void use_precise_sleep() { prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); }

void Pacer::copy(void* to, const void* from, int64_t bytes, bool after_wait) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  due_ = start_time(after_wait);
  if (slow_ > 1) {
    copy_slowly(target, source, bytes);
  } else {
    copy_paced(target, source, bytes);
  }
}

int64_t Pacer::start_time(bool after_wait) const {
  const int64_t now = now_ns();
  return after_wait || now - due_ > lateness_forgiven_ns ? now : due_;
}

void Pacer::copy_paced(std::byte* to, const std::byte* from, int64_t bytes) {
  const int64_t start = due_;
  for (int64_t moved = 0; moved < bytes;) {
    const int64_t part = std::min(chunk_bytes, bytes - moved);
    move(to + moved, from + moved, part);
    moved += part;
    if (rate_ > 0) {
      due_ = start + static_cast<int64_t>(static_cast<double>(moved) / rate_ * 1e9);
      sleep_until(due_);
    }
  }
}

// Half of the bytes at once, the other half when time is nearly over: a copy that began before its
// source was written, or ended after somebody relied on it, then shows in the values.
void Pacer::copy_slowly(std::byte* to, const std::byte* from, int64_t bytes) {
  const int64_t half = bytes / 2;
  const int64_t begin = now_ns();
  move(to, from, half);
  const int64_t half_time = now_ns() - begin;
  const int64_t by_link =
      rate_ > 0 ? static_cast<int64_t>(static_cast<double>(bytes) / rate_ * 1e9) : 0;
  const int64_t unslowed = std::max({by_link, 2 * half_time, shortest_slowed_ns});
  const int64_t start = due_;
  due_ = start + static_cast<int64_t>(static_cast<double>(unslowed) * slow_);
  sleep_until(due_ - half_time);
  move(to + half, from + half, bytes - half);
  sleep_until(due_);
}

}  // namespace spillway
