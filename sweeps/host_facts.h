// What a machine's /proc and /sys say about its memory, NUMA nodes and limits. Reads under any root
// directory, and a file that is missing or unreadable leaves its fact blank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

struct NumaNode {
  int64_t id = 0;
  std::string cpus;                // "0-71"; empty: none, as for a GPU's own memory
  std::vector<int64_t> distances;  // to each node, in the order of ids; 10: itself
};

// A limit on bytes and the file it was read from.
struct MemoryLimit {
  int64_t bytes = 0;
  std::string file;
};

struct HostFacts {
  std::vector<std::string> isa;              // of those that kernels use: "avx2", "amx_bf16"
  std::optional<int64_t> memory, available;  // bytes
  std::optional<int64_t> huge_page_bytes;    // of one
  std::optional<int64_t> huge_pages, huge_pages_free;  // counts
  std::string transparent_huge_pages;  // "always", "madvise", "never"; empty: unknown
  std::vector<NumaNode> nodes;         // by id
  std::optional<MemoryLimit> cgroup;   // the tightest of the process's groups; v1, v2
  std::string locked;  // RLIMIT_MEMLOCK, soft: bytes, or "unlimited"; empty: unknown
};

// `root` stands for "/".
HostFacts read_host_facts(const std::string& root = "/");

// Where a PCI device is attached.
struct PciFacts {
  std::optional<int64_t> node;  // blank: unknown, or the machine says it has none
  std::string link_speed;       // "32.0 GT/s PCIe"; empty: unknown
  std::optional<int64_t> link_width;
};
// `address` as "0000:65:00.0", in either case.
PciFacts read_pci_facts(const std::string& address, const std::string& root = "/");

// The node whose memory a device attached to node `from` should copy to: of those that have CPUs,
// the nearest; among equals the one of the lowest id. Blank where nothing decides.
std::optional<int64_t> nearest_node(const std::vector<NumaNode>& nodes,
                                    std::optional<int64_t> from);

}  // namespace spillway
