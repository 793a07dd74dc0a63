// Copies beside whatever else runs: what the copy lanes of a step do to compute, by itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "harness/executor.h"
#include "harness/op_rates.h"

namespace spillway {

// Threads that copy between two arenas as the executor's copy lanes do, from construction to
// destruction: paced, back to back, over more memory than caches hold.
class CopyLoad {
 public:
  // bytes_per_second of each lane, 0: as fast as memcpy goes. `memory` is used by nobody else
  // meanwhile; it holds at least arena_bytes on both sides. Copies of `bytes` <= arena_bytes / 4.
  static constexpr int64_t arena_bytes = int64_t{256} << 20;
  CopyLoad(CpuMemory& memory, CopyLanes lanes, double bytes_per_second, int64_t bytes);
  ~CopyLoad();
  CopyLoad(const CopyLoad&) = delete;
  CopyLoad& operator=(const CopyLoad&) = delete;

  // Bytes all lanes have moved by now, whole copies.
  int64_t moved() const { return moved_.load(); }

 private:
  void serve(std::byte* to, const std::byte* from, double bytes_per_second, int64_t bytes);

  std::atomic<int64_t> moved_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace spillway
