// Workers that run independent tiles. A worker that finds nothing to do spins for a few
// microseconds and then sleeps in the kernel: ops follow one another closely, but copy lanes need
// the cores too.
#include "harness/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>

#include "harness/error.h"

namespace spillway {
namespace {

constexpr int spins_before_sleep = 2000;  // about 20 microseconds

// Returns once `value` differs from `old`.
template <class T>
void wait_while_equal(const std::atomic<T>& value, T old) {
  for (int i = 0; i < spins_before_sleep; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  while (value.load(std::memory_order_acquire) == old)
    value.wait(old, std::memory_order_acquire);
}

}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> threads;
  std::atomic<uint32_t> epoch{0};  // raised once per run(): workers start
  std::atomic<int> busy{0};        // workers that have not finished this epoch
  std::atomic<int64_t> next{0};    // first tile nobody has taken
  std::atomic<bool> running{false}, stop{false};
  int64_t count = 0;
  const std::function<void(int64_t, int)>* task = nullptr;
  std::mutex failure_mutex;
  std::exception_ptr failure;

  void take_tiles(int worker) {
    try {
      for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1))
        (*task)(i, worker);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
      next.store(count);  // the rest is not started
    }
  }

  void work(int worker) {
    for (uint32_t seen = 0;;) {
      wait_while_equal(epoch, seen);
      ++seen;
      if (stop.load()) return;
      take_tiles(worker);
      if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) busy.notify_one();
    }
  }

  void wait_until_idle() {
    for (int left = busy.load(); left != 0; left = busy.load())
      wait_while_equal(busy, left);
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  check(threads >= 1, "a thread pool needs at least one thread, not ", threads);
  for (int worker = 1; worker < threads; ++worker) {
    state_->threads.emplace_back([state = state_.get(), worker] { state->work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true);
  state_->epoch.fetch_add(1);
  state_->epoch.notify_all();
  for (std::thread& thread : state_->threads)
    thread.join();
}

int ThreadPool::threads() const { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::run(int64_t count, const std::function<void(int64_t, int)>& task) {
  State& s = *state_;
  check(!s.running.exchange(true), "ThreadPool::run was called from two threads, or from a task");
  s.task = &task;
  s.count = count;
  s.next.store(0);
  s.failure = nullptr;
  const bool alone = s.threads.empty() || count <= 1;
  if (!alone) {
    s.busy.store(static_cast<int>(s.threads.size()));
    s.epoch.fetch_add(1, std::memory_order_release);
    s.epoch.notify_all();
  }
  s.take_tiles(0);
  s.wait_until_idle();
  const std::exception_ptr failure = s.failure;
  s.running.store(false);
  if (failure) std::rethrow_exception(failure);
}

namespace {

// CPUs a cgroup's quota amounts to, rounded up; 0 where there is no quota. Version 2 keeps "quota
// period" (or "max period") in cpu.max, version 1 the two numbers in files of their own;
// microseconds.
int quota_cpus(const std::string& folder) {
  double quota = 0, period = 0;
  if (std::ifstream v2(folder + "/cpu.max"); v2) {
    std::string text_of_quota;
    v2 >> text_of_quota >> period;
    if (text_of_quota.empty() || text_of_quota == "max") return 0;
    std::istringstream(text_of_quota) >> quota;
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? std::max(1, static_cast<int>(std::ceil(quota / period))) : 0;
}

// Folders whose quota holds for this process: the mount itself (inside a container it is the
// process's own group) and the group that /proc names.
std::vector<std::string> cgroup_folders() {
  std::vector<std::string> folders = {"/sys/fs/cgroup", "/sys/fs/cgroup/cpu"};
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t path = line.rfind(':');
    if (path == std::string::npos) continue;
    folders.push_back("/sys/fs/cgroup" + line.substr(path + 1));
    folders.push_back("/sys/fs/cgroup/cpu" + line.substr(path + 1));
  }
  return folders;
}

}  // namespace

int usable_cpus() {
  int cpus = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = std::max(1, CPU_COUNT(&set));
  for (const std::string& folder : cgroup_folders()) {
    if (const int quota = quota_cpus(folder); quota > 0) cpus = std::min(cpus, quota);
  }
  return cpus;
}

}  // namespace spillway
