// spillway doctor: what this machine has, and what each executor misses here. Nothing it looks at
// needs to be there, so it always ends well.
#include <array>
#include <iostream>

#include "harness/cuda/cuda_executor.h"
#include "harness/cuda/nvml.h"
#include "harness/cuda/shared_library.h"
#include "sweeps/cli.h"
#include "sweeps/host_facts.h"
#include "sweeps/run.h"

namespace spillway {

namespace {

using nlohmann::json;

// NVIDIA's libraries write 9.19.0 as 91900, 2.28.9 as 22809 and 13.1.0 as 130100.
std::string dotted(size_t version) {
  return text(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::string onednn_version(const SharedLibrary& library) {
  struct Version {
    int major, minor, patch;  // dnnl_version_t begins so
  };
  const auto* version = library.find<const Version* (*)()>("dnnl_version")();
  return text(version->major, ".", version->minor, ".", version->patch);
}
std::string cublaslt_version(const SharedLibrary& library) {
  return dotted(library.find<size_t (*)()>("cublasLtGetVersion")());
}
std::string cudnn_version(const SharedLibrary& library) {
  return dotted(library.find<size_t (*)()>("cudnnGetVersion")());
}
std::string nccl_version(const SharedLibrary& library) {
  int version = 0;
  const int code = library.find<int (*)(int*)>("ncclGetVersion")(&version);
  return code == 0 ? dotted(static_cast<size_t>(version)) : "unknown version";
}
std::string nvml_version(const SharedLibrary& library) {
  if (library.find<int (*)()>("nvmlInit_v2")() != 0) return "unknown version";
  std::array<char, 96> version{};
  const int code = library.find<int (*)(char*, unsigned)>("nvmlSystemGetNVMLVersion")(
      version.data(), version.size());
  library.find<int (*)()>("nvmlShutdown")();
  return code == 0 ? version.data() : "unknown version";
}

struct KnownLibrary {
  const char* name;
  std::array<const char*, 2> files;  // the first that loads counts
  std::string (*version)(const SharedLibrary&);
  const char* without;  // what the executor does where it is missing, and how to get it
};
constexpr KnownLibrary onednn = {
    "oneDNN",
    {"libdnnl.so.2", "libdnnl.so.3"},
    onednn_version,
    "oneDNN: products take the portable path (Debian: libdnnl-dev, then build again)"};
constexpr std::array cuda_libraries = {
    KnownLibrary{"cuBLASLt",
                 {"libcublasLt.so.13", "libcublasLt.so.12"},
                 cublaslt_version,
                 "cuBLASLt: products are computed by plain kernels (part of the CUDA toolkit)"},
    KnownLibrary{"cuDNN",
                 {"libcudnn.so.9", "libcudnn.so.8"},
                 cudnn_version,
                 "cuDNN: attention is computed by plain kernels (NVIDIA's package libcudnn9)"},
    KnownLibrary{"NCCL",
                 {"libnccl.so.2", "libnccl.so"},
                 nccl_version,
                 "NCCL: no collectives (NVIDIA's package libnccl2)"},
    KnownLibrary{"NVML",
                 {"libnvidia-ml.so.1", "libnvidia-ml.so"},
                 nvml_version,
                 "NVML: clocks and throttling stay blank (comes with the driver)"},
};

// Empty: it is not there.
std::string version_of(const KnownLibrary& library) {
  for (const char* file : library.files) {
    try {
      return library.version(SharedLibrary(file));
    } catch (const RunError&) {  // not there, or not what its name says
    }
  }
  return "";
}

json or_blank(const std::string& value) { return value.empty() ? json(nullptr) : json(value); }
json or_blank(const std::optional<int64_t>& value) { return value ? json(*value) : json(nullptr); }
// CUDA's own form of a version.
json version_or_blank(int version) {
  return version == 0 ? json(nullptr) : json(version_text(version));
}

json cpu_json(const HostFacts& facts) {
  const json found = environment();
  return {{"model", found["cpu"]},
          {"threads", found["threads"]},
          {"isa", facts.isa},
          {"matmul_bf16", found["matmul_bf16"]},
          {"matmul_fp32", found["matmul_fp32"]},
          {"os", found["os"]}};
}

json memory_json(const HostFacts& facts) {
  return {{"bytes", or_blank(facts.memory)},
          {"available_bytes", or_blank(facts.available)},
          {"huge_page_bytes", or_blank(facts.huge_page_bytes)},
          {"huge_pages", or_blank(facts.huge_pages)},
          {"huge_pages_free", or_blank(facts.huge_pages_free)},
          {"transparent_huge_pages", or_blank(facts.transparent_huge_pages)}};
}

json bounds_json(const HostFacts& facts) {
  json limits = {{"memlock", or_blank(facts.locked)}, {"cgroup_bytes", nullptr}};
  if (facts.cgroup) {
    limits["cgroup_bytes"] = facts.cgroup->bytes;
    limits["cgroup_file"] = facts.cgroup->file;
  }
  return limits;
}

json numa_json(const HostFacts& facts) {
  json nodes = json::array();
  for (const NumaNode& node : facts.nodes)
    nodes.push_back(
        {{"node", node.id}, {"cpus", or_blank(node.cpus)}, {"distances", node.distances}});
  return nodes;
}

json attached_json(const CudaDevice& device, const HostFacts& facts) {
  const PciFacts pci = read_pci_facts(device.pci_address);
  return {{"name", device.name},
          {"memory_bytes", device.memory_bytes},
          {"compute_capability", text(device.major, ".", device.minor)},
          {"pci_address", device.pci_address},
          {"numa_node", or_blank(pci.node)},
          {"nearest_node_with_cpus", or_blank(nearest_node(facts.nodes, pci.node))},
          {"link_speed", or_blank(pci.link_speed)},
          {"link_width", or_blank(pci.link_width)},
          {"host_page_tables", device.host_page_tables},
          {"driver", or_blank(Nvml(device.pci_address).driver_version())},
          {"kernels", built_for(cuda_targets(), device.major, device.minor)}};
}

json cuda_json(const CudaState& state, const HostFacts& facts) {
  json gpus = json::array();
  for (const CudaDevice& device : state.devices)
    gpus.push_back(attached_json(device, facts));
  return {{"built", state.built},
          {"targets", or_blank(cuda_targets())},
          {"runtime", version_or_blank(state.runtime_version)},
          {"driver_supports", version_or_blank(state.driver_version)},
          {"gpus", gpus}};
}

json executor_json(bool usable, const json& missing) {
  return {{"usable", usable}, {"missing", missing}};
}

// Libraries and executors: what is missing is said once, where it matters.
void add_executors(json& found, const CudaState& state) {
  json cpu = json::array(), cuda = json::array();
  const auto look = [&found](const KnownLibrary& library, json& missing) {
    const std::string version = version_of(library);
    found["libraries"][library.name] = or_blank(version);
    if (version.empty()) missing.push_back(library.without);
  };
  look(onednn, cpu);
  if (!state.problem.empty()) cuda.push_back(state.problem + ": " + state.advice);
  for (const json& gpu : found["cuda"]["gpus"])
    if (!gpu["kernels"].get<bool>())
      cuda.push_back(text("kernels for ", gpu["name"].get<std::string>(), ", built for ",
                          cuda_targets(), ": build again with CMAKE_CUDA_ARCHITECTURES"));
  for (const KnownLibrary& library : cuda_libraries)
    look(library, cuda);
  found["executors"] = {{"cpu", executor_json(true, cpu)},
                        {"sim", executor_json(true, json::array())},
                        {"cuda", executor_json(state.problem.empty(), cuda)}};
}

json examine() {
  const HostFacts facts = read_host_facts();
  const CudaState state = cuda_state();
  json found = {{"cpu", cpu_json(facts)},
                {"memory", memory_json(facts)},
                {"limits", bounds_json(facts)},
                {"numa", numa_json(facts)},
                {"cuda", cuda_json(state, facts)}};
  add_executors(found, state);
  return found;
}

std::string plain(const json& value) {
  if (value.is_null()) return "-";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void print_part(const std::string& name, const json& part) {
  std::cout << name << "\n";
  for (const auto& [key, value] : part.items()) {
    std::cout << "  " << key << ": " << plain(value);
    if (key.ends_with("bytes") && value.is_number())
      std::cout << " (" << bytes_text(value.get<double>()) << ")";
    std::cout << "\n";
  }
}

void print(const json& found) {
  for (const char* part : {"cpu", "memory", "limits"})
    print_part(part, found[part]);
  for (const json& node : found["numa"])
    print_part("NUMA node", node);
  json cuda = found["cuda"];
  cuda.erase("gpus");
  print_part("CUDA", cuda);
  for (const json& gpu : found["cuda"]["gpus"])
    print_part("GPU", gpu);
  print_part("libraries", found["libraries"]);
  for (const auto& [name, executor] : found["executors"].items()) {
    std::cout << "--executor " << name << ": "
              << (executor["usable"].get<bool>() ? "usable" : "not usable") << "\n";
    for (const json& missing : executor["missing"])
      std::cout << "  missing: " << missing.get<std::string>() << "\n";
  }
}

}  // namespace

int execute(const DoctorCommand& command) {
  const json found = examine();
  if (command.json.empty())
    print(found);
  else
    write_json(command.json, found);
  return 0;
}

}  // namespace spillway
