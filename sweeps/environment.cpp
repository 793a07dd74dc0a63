// What a result was obtained on.
#include <fstream>
#include <string>

#include <sys/utsname.h>

#include "harness/ops/matmul.h"
#include "harness/thread_pool.h"
#include "sweeps/run.h"

namespace spillway {

namespace {

// "model name" of /proc/cpuinfo on x86; arm kernels print no name, so the architecture stands in.
std::string cpu_model(const utsname& system) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(':');
    if (line.rfind("model name", 0) == 0 && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return system.machine;
}

}  // namespace

nlohmann::json environment() {
  utsname system{};
  uname(&system);
  return {{"cpu", cpu_model(system)},
          {"threads", usable_cpus()},
          {"matmul_bf16", matmul_path(Precision::bf16)},
          {"matmul_fp32", matmul_path(Precision::fp32)},
          {"compiler", __VERSION__},
          {"os", std::string(system.sysname) + " " + system.release},
          {"spillway", SPILLWAY_VERSION}};
}

}  // namespace spillway
