// Readers of /proc and /sys over trees written here, and the choice of a NUMA node. And `doctor`.
#include "sweeps/host_facts.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FakeRoot {
 public:
  void write(const std::string& path, const std::string& contents) const {
    const std::filesystem::path file = std::filesystem::path(root()) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << contents;
  }
  const std::string& root() const { return scratch_.path(); }
  HostFacts facts() const { return read_host_facts(root()); }

 private:
  ScratchDir scratch_;
};

void write_node(const FakeRoot& fake, int id, const std::string& cpus,
                const std::string& distances) {
  const std::string at = "sys/devices/system/node/node" + std::to_string(id) + "/";
  fake.write(at + "cpulist", cpus + "\n");
  fake.write(at + "distance", distances + "\n");
}

// A GB200 tray: two Grace nodes with CPUs, the other 32 the GPUs' memory. Nodes 2-17 are nearer to
// node 0 and 18-33 to node 1.
void write_gb200(const FakeRoot& fake) {
  for (int id = 0; id < 34; ++id) {
    std::string distances;
    for (int to = 0; to < 34; ++to) {
      const bool near = (id <= 1 ? id == 1 : id >= 18) == (to <= 1 ? to == 1 : to >= 18);
      distances += std::to_string(id == to ? 10 : near ? 80 : 120) + " ";
    }
    write_node(fake, id, id == 0 ? "0-71" : id == 1 ? "72-143" : "", distances);
  }
}

TEST(NearestNode, OfTheTwoNodesWithCpusOfAGb200) {
  const FakeRoot fake;
  write_gb200(fake);
  const std::vector<NumaNode> nodes = fake.facts().nodes;
  ASSERT_EQ(nodes.size(), 34U);
  EXPECT_EQ(nodes[10].id, 10);  // by number, not by name
  EXPECT_EQ(nearest_node(nodes, 0), 0);
  EXPECT_EQ(nearest_node(nodes, 1), 1);
  EXPECT_EQ(nearest_node(nodes, 2), 0);
  EXPECT_EQ(nearest_node(nodes, 33), 1);
  EXPECT_EQ(nearest_node(nodes, 99), std::nullopt);
  EXPECT_EQ(nearest_node(nodes, std::nullopt), std::nullopt);
}

TEST(NearestNode, OneOrNone) {
  const FakeRoot one;
  write_node(one, 0, "0-1", "10");
  EXPECT_EQ(nearest_node(one.facts().nodes, std::nullopt), 0);
  EXPECT_EQ(nearest_node({}, 0), std::nullopt);
}

TEST(NearestNode, ABrokenDistanceTableDecidesNothing) {
  const FakeRoot fake;
  write_node(fake, 0, "0-1", "10 20 20");
  write_node(fake, 1, "2-3", "20 10 20");
  write_node(fake, 2, "", "20 x");
  EXPECT_EQ(nearest_node(fake.facts().nodes, 2), std::nullopt);
}

TEST(HostFacts, MemoryAndLimits) {
  const FakeRoot fake;
  fake.write("proc/meminfo",
             "MemTotal:  16 kB\nMemAvailable: 8 kB\nHugePages_Total: 7\nHugePages_Free: 5\n"
             "Hugepagesize: 2048 kB\n");
  fake.write("proc/cpuinfo", "model name\t: x\nflags\t\t: fpu avx2 avx512f amx_bf16 amx_tiles\n");
  fake.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  fake.write("proc/self/limits",
             "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  8388608  16777216  bytes\n");
  const HostFacts facts = fake.facts();
  EXPECT_EQ(facts.memory, 16 * 1024);
  EXPECT_EQ(facts.available, 8 * 1024);
  EXPECT_EQ(facts.huge_page_bytes, 2 << 20);
  EXPECT_EQ(facts.huge_pages, 7);
  EXPECT_EQ(facts.huge_pages_free, 5);
  EXPECT_EQ(facts.transparent_huge_pages, "madvise");
  EXPECT_EQ(facts.locked, "8388608");
  EXPECT_THAT(facts.isa, ElementsAre("avx2", "avx512f", "amx_bf16"));
  EXPECT_FALSE(facts.cgroup);
}

TEST(HostFacts, TheTightestLimitOfTheGroupsAbove) {
  const FakeRoot fake;
  fake.write("proc/self/cgroup", "0::/a/b\n");
  fake.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  fake.write("sys/fs/cgroup/a/memory.max", "4096\n");
  fake.write("sys/fs/cgroup/memory.max", "8192\n");
  const HostFacts facts = fake.facts();
  ASSERT_TRUE(facts.cgroup);
  EXPECT_EQ(facts.cgroup->bytes, 4096);
  EXPECT_EQ(facts.cgroup->file, fake.root() + "/sys/fs/cgroup/a/memory.max");
}

TEST(HostFacts, CgroupsOfVersionOne) {
  const FakeRoot fake;
  fake.write("proc/self/cgroup", "5:cpu,cpuacct:/c\n4:memory:/m\n");
  fake.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(fake.facts().cgroup);
  fake.write("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "1048576\n");
  ASSERT_TRUE(fake.facts().cgroup);
  EXPECT_EQ(fake.facts().cgroup->bytes, 1048576);
}

TEST(HostFacts, NothingAndNonsenseLeaveBlanks) {
  const FakeRoot fake;
  EXPECT_FALSE(fake.facts().memory);
  fake.write("proc/meminfo", "MemTotal: 99999999999999999999 kB\nMemAvailable:\nHugePages_Free: x");
  fake.write("proc/self/cgroup", "nonsense\n::\n");
  fake.write("sys/devices/system/node", "a file where a directory belongs");
  const HostFacts facts = fake.facts();
  EXPECT_FALSE(facts.memory || facts.available || facts.huge_pages_free || facts.cgroup);
  EXPECT_THAT(facts.nodes, IsEmpty());
  EXPECT_EQ(facts.locked, "");
}

TEST(PciFacts, NodeAndLink) {
  const FakeRoot fake;
  const std::string at = "sys/bus/pci/devices/0009:ab:00.0/";
  fake.write(at + "numa_node", "1\n");
  fake.write(at + "current_link_speed", "32.0 GT/s PCIe\n");
  fake.write(at + "current_link_width", "16\n");
  const PciFacts facts = read_pci_facts("0009:AB:00.0", fake.root());
  EXPECT_EQ(facts.node, 1);
  EXPECT_EQ(facts.link_speed, "32.0 GT/s PCIe");
  EXPECT_EQ(facts.link_width, 16);
  fake.write(at + "numa_node", "-1\n");
  EXPECT_FALSE(read_pci_facts("0009:AB:00.0", fake.root()).node);
  EXPECT_FALSE(read_pci_facts("0000:01:00.0", fake.root()).link_width);
}

TEST(Doctor, SaysWhatEachExecutorMisses) {
  const Finished told = spillway_cli({"doctor"});
  EXPECT_EQ(told.exit_code, 0);
  const Finished result = spillway_cli({"doctor", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  const nlohmann::json found = result.json();
  EXPECT_GT(found["memory"]["bytes"], 0);
  for (const char* executor : {"cpu", "sim", "cuda"}) {
    EXPECT_THAT(told.out, HasSubstr(std::string("--executor ") + executor + ": "));
    for (const nlohmann::json& missing : found["executors"][executor]["missing"])
      EXPECT_THAT(told.out, HasSubstr(missing.get<std::string>()));
  }
  EXPECT_TRUE(found["executors"]["cpu"]["usable"]);
  EXPECT_TRUE(found["executors"]["sim"]["missing"].empty());
  // A CUDA executor is usable exactly where there is a GPU.
  EXPECT_EQ(found["executors"]["cuda"]["usable"], !found["cuda"]["gpus"].empty());
}

}  // namespace
}  // namespace spillway
