// Workers that run independent tiles of one op. One pool a process: each worker runs library
// kernels single-threaded on its own tile, because two spinning pools stall each other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace spillway {

class ThreadPool {
 public:
  // The caller of run() is one of the `threads` workers. threads >= 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls task(i, worker) once for each i in [0, count), dynamically distributed; returns when all
  // are done. Which worker runs a tile must not change its result. The first exception is rethrown.
  void run(int64_t count, const std::function<void(int64_t tile, int worker)>& task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// CPUs this process may use (affinity and cgroup quota).
int usable_cpus();

}  // namespace spillway
