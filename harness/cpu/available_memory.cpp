// Reads /proc/meminfo and the memory controller of cgroups. Libraries that report total memory were
// seen to be wrong inside containers, so the files are read here.
#include "harness/cpu/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "harness/executor.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr int64_t reserve_bytes = int64_t{2} << 30;  // left to the system and to our own heap

// What one version of the memory controller calls its files.
struct Controller {
  const char* directory;  // where the tree is mounted, from the root
  const char* limit;
  const char* usage;
  const char* reclaimable;  // key in memory.stat: page cache that is dropped under pressure
};
constexpr Controller version2 = {"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr Controller version1 = {"sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                 "memory.usage_in_bytes", "total_inactive_file"};

// The first line's number; nothing when the file is absent or says "max".
std::optional<int64_t> read_number(const fs::path& file) {
  std::ifstream in(file);
  int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

// The number after `key` in a file of "key value" lines.
std::optional<int64_t> read_key(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  std::string word, rest;
  int64_t value = 0;
  while (in >> word) {
    if (word == key && in >> value) return value;
    in.clear();
    std::getline(in, rest);
  }
  return std::nullopt;
}

std::optional<int64_t> room_in_group(const fs::path& group, const Controller& controller) {
  const auto limit = read_number(group / controller.limit);
  const auto usage = read_number(group / controller.usage);
  if (!limit || !usage) return std::nullopt;
  const int64_t cache = read_key(group / "memory.stat", controller.reclaimable).value_or(0);
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *usage - cache));
}

// The group's own limit and every parent's bind. A path that does not exist (a container that sees
// only its own part of the tree) leaves the mount's root.
int64_t room_in_tree(const fs::path& root, const Controller& controller, const std::string& path) {
  int64_t room = std::numeric_limits<int64_t>::max();
  fs::path inner = fs::path(path).relative_path();
  while (true) {
    const auto here = room_in_group(root / controller.directory / inner, controller);
    if (here) room = std::min(room, *here);
    if (inner.empty()) return room;
    inner = inner.parent_path();
  }
}

// Lines of /proc/self/cgroup are "id:controllers:path"; version 2 has one, with id 0 and none.
int64_t room_in_cgroups(const fs::path& root) {
  int64_t room = std::numeric_limits<int64_t>::max();
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (line.starts_with("0::")) room = std::min(room, room_in_tree(root, version2, path));
    if (controllers.find(",memory,") != std::string::npos) {
      room = std::min(room, room_in_tree(root, version1, path));
    }
  }
  return room;
}

}  // namespace

int64_t free_memory_bytes(const std::filesystem::path& root) {
  const int64_t kib = read_key(root / "proc/meminfo", "MemAvailable:").value_or(0);
  return std::min(kib * 1024, room_in_cgroups(root));
}

int64_t available_memory_bytes() {
  return std::max<int64_t>(0, free_memory_bytes("/") - reserve_bytes);
}

}  // namespace spillway
