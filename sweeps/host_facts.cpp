// Readers of /proc and /sys (proc(5), cgroups(7), the kernel's sysfs-devices-node and
// sysfs-bus-pci).
#include "sweeps/host_facts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

namespace spillway {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

std::string first_line(const fs::path& file) {
  const std::vector<std::string> lines = lines_of(file);
  return lines.empty() ? "" : lines.front();
}

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;)
    words.push_back(word);
  return words;
}

// The first word after `name` in a file of "name value ..." lines; empty: none.
std::string word_after(const std::vector<std::string>& lines, const std::string& name) {
  for (const std::string& line : lines) {
    if (!line.starts_with(name)) continue;
    const std::vector<std::string> words = words_of(line.substr(name.size()));
    return words.empty() ? "" : words.front();
  }
  return "";
}

std::optional<int64_t> value_of(const std::vector<std::string>& lines, const std::string& name) {
  return whole_number(word_after(lines, name));
}

std::optional<int64_t> in_bytes(std::optional<int64_t> kibibytes) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max() / 1024;
  if (!kibibytes || *kibibytes < 0 || *kibibytes > most) return std::nullopt;
  return *kibibytes * 1024;
}

// x86 lists "flags", arm "Features".
std::vector<std::string> read_isa(const fs::path& root) {
  constexpr std::array kept = {"avx2",     "avx512f", "avx512_bf16", "amx_tile",
                               "amx_bf16", "asimd",   "sve",         "bf16"};
  std::vector<std::string> words;
  for (const std::string& line : lines_of(root / "proc/cpuinfo"))
    if (line.starts_with("flags") || line.starts_with("Features")) {
      words = words_of(line);
      break;
    }
  std::vector<std::string> isa;
  for (const char* name : kept)
    if (std::find(words.begin(), words.end(), name) != words.end()) isa.emplace_back(name);
  return isa;
}

// "always [madvise] never" -> "madvise".
std::string chosen_word(const std::string& line) {
  const size_t open = line.find('['), close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "";
  return line.substr(open + 1, close - open - 1);
}

std::vector<NumaNode> read_nodes(const fs::path& root) {
  std::vector<NumaNode> nodes;
  std::error_code error;
  fs::directory_iterator entry(root / "sys/devices/system/node", error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    const std::optional<int64_t> id =
        name.starts_with("node") ? whole_number(name.substr(4)) : std::nullopt;
    if (!id || *id < 0) continue;
    NumaNode node{*id, first_line(entry->path() / "cpulist"), {}};
    for (const std::string& word : words_of(first_line(entry->path() / "distance")))
      if (const auto distance = whole_number(word)) node.distances.push_back(*distance);
    nodes.push_back(node);
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
  return nodes;
}

// The limits of a group and of those above it, in `file` of each; the tightest counts.
void tighten(std::optional<MemoryLimit>& limit, const fs::path& mount, const std::string& group,
             const char* file) {
  constexpr int64_t none_of_v1 = int64_t{1} << 62;  // v1 writes "no limit" as nearly 2^63
  for (fs::path path = fs::path(group).relative_path();; path = path.parent_path()) {
    const fs::path place = mount / path / file;
    const std::optional<int64_t> bytes = whole_number(first_line(place));
    if (bytes && *bytes >= 0 && *bytes < none_of_v1 && (!limit || *bytes < limit->bytes))
      limit = MemoryLimit{*bytes, place};
    if (path.empty()) return;
  }
}

// Lines of /proc/self/cgroup: "0::/group" (v2), "4:memory:/group" (v1).
std::optional<MemoryLimit> read_cgroup(const fs::path& root) {
  std::optional<MemoryLimit> limit;
  for (const std::string& line : lines_of(root / "proc/self/cgroup")) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,")
      tighten(limit, root / "sys/fs/cgroup", group, "memory.max");
    else if (controllers.find(",memory,") != std::string::npos)
      tighten(limit, root / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
  }
  return limit;
}

}  // namespace

HostFacts read_host_facts(const std::string& root) {
  const fs::path at(root);
  const std::vector<std::string> memory = lines_of(at / "proc/meminfo");
  HostFacts facts;
  facts.isa = read_isa(at);
  facts.memory = in_bytes(value_of(memory, "MemTotal:"));
  facts.available = in_bytes(value_of(memory, "MemAvailable:"));
  facts.huge_page_bytes = in_bytes(value_of(memory, "Hugepagesize:"));
  facts.huge_pages = value_of(memory, "HugePages_Total:");
  facts.huge_pages_free = value_of(memory, "HugePages_Free:");
  facts.transparent_huge_pages =
      chosen_word(first_line(at / "sys/kernel/mm/transparent_hugepage/enabled"));
  facts.nodes = read_nodes(at);
  facts.cgroup = read_cgroup(at);
  facts.locked = word_after(lines_of(at / "proc/self/limits"), "Max locked memory");
  return facts;
}

PciFacts read_pci_facts(const std::string& address, const std::string& root) {
  std::string name = address;
  for (char& c : name)
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');  // sysfs writes lower case
  const fs::path at = fs::path(root) / "sys/bus/pci/devices" / name;
  PciFacts facts;
  facts.node = whole_number(first_line(at / "numa_node"));
  if (facts.node && *facts.node < 0) facts.node.reset();  // -1: none is set
  facts.link_speed = first_line(at / "current_link_speed");
  facts.link_width = whole_number(first_line(at / "current_link_width"));
  return facts;
}

std::optional<int64_t> nearest_node(const std::vector<NumaNode>& nodes,
                                    std::optional<int64_t> from) {
  std::vector<size_t> candidates;
  const NumaNode* origin = nullptr;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].cpus.empty()) candidates.push_back(i);
    if (from && nodes[i].id == *from) origin = &nodes[i];
  }
  if (candidates.size() == 1) return nodes[candidates.front()].id;
  if (candidates.empty() || origin == nullptr) return std::nullopt;
  if (!origin->cpus.empty()) return origin->id;
  if (origin->distances.size() != nodes.size()) return std::nullopt;
  const auto nearer = [origin](size_t a, size_t b) {
    return origin->distances[a] < origin->distances[b];
  };
  return nodes[*std::min_element(candidates.begin(), candidates.end(), nearer)].id;
}

}  // namespace spillway
