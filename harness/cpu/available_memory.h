// How much memory this process can still take before the kernel refuses or kills it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace spillway {

// Bytes free for this process: the smallest of MemAvailable of /proc/meminfo and, for its cgroup
// (version 2 or 1) and each of that one's parents, limit less usage, where page cache that can be
// dropped is no usage. `root` is "/" but in tests. 0 when nothing could be read.
int64_t free_memory_bytes(const std::filesystem::path& root);

}  // namespace spillway
