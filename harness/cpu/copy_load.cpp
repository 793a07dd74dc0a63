// Copies beside whatever else runs.
#include "harness/cpu/copy_load.h"

#include "harness/cpu/pacer.h"
#include "harness/error.h"

namespace spillway {

// Each lane has a half of both arenas.
CopyLoad::CopyLoad(CpuMemory& memory, CopyLanes lanes, double bytes_per_second, int64_t bytes) {
  constexpr int64_t half = arena_bytes / 2;
  check(bytes >= 1 && bytes <= half / 2, "copies of ", bytes, " bytes in halves of ", half);
  memory.reserve(arena_bytes, arena_bytes);
  std::byte *device = memory.device(), *host = memory.host();
  if (lanes != CopyLanes::h2d)
    threads_.emplace_back([=, this] { serve(host, device, bytes_per_second, bytes); });
  if (lanes != CopyLanes::d2h)
    threads_.emplace_back(
        [=, this] { serve(device + half, host + half, bytes_per_second, bytes); });
}

CopyLoad::~CopyLoad() {
  stop_.store(true);
  for (std::thread& thread : threads_)
    thread.join();
}

void CopyLoad::serve(std::byte* to, const std::byte* from, double bytes_per_second, int64_t bytes) {
  use_precise_sleep();
  Pacer pacer(bytes_per_second, 1);
  int64_t at = 0;
  for (bool first = true; !stop_.load(); first = false) {
    pacer.copy(to + at, from + at, bytes, first);
    moved_.fetch_add(bytes);
    at = at + 2 * bytes <= arena_bytes / 2 ? at + bytes : 0;
  }
}

}  // namespace spillway
