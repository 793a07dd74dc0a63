// What the check runs on.
#include "harness/cuda/nvml.h"
#include "harness/error.h"
#include "harness/executor.h"
#include "harness/thread_pool.h"
#include "sweeps/run.h"
#include "tests/gpu/part.h"

namespace spillway {
namespace {

nlohmann::json clocks_of(const Nvml& nvml) {
  if (!nvml.found()) return nullptr;
  const DeviceClocks clocks = nvml.clocks();
  const auto number = [](double value) {
    return value == value ? nlohmann::json(value) : nlohmann::json(nullptr);
  };
  return {{"compute_hertz", number(clocks.compute_hertz)},
          {"memory_hertz", number(clocks.memory_hertz)},
          {"watts", number(clocks.watts)},
          {"celsius", number(clocks.celsius)},
          {"throttled", clocks.throttled}};
}

}  // namespace

Finding check_environment(const Subject& subject, const Effort&) {
  const CudaDevice& device = device_of(*subject.memory);
  const CudaState state = cuda_state();
  const Nvml nvml(device.pci_address);
  Finding finding;
  finding.figures = {{"gpu", device.name},
                     {"compute_capability", text(device.major, ".", device.minor)},
                     {"pci_address", device.pci_address},
                     {"multiprocessors", device.multiprocessors},
                     {"memory_bytes", device.memory_bytes},
                     {"free_bytes", available_bytes(*subject.memory)},
                     {"l2_bytes", device.l2_bytes},
                     {"host_page_tables", device.host_page_tables},
                     {"driver", nvml.driver_version()},
                     {"cuda_driver", version_text(state.driver_version)},
                     {"cuda_runtime", version_text(state.runtime_version)},
                     {"built_for", cuda_targets()},
                     {"clocks", clocks_of(nvml)},
                     {"devices", state.devices.size()},
                     {"cpus", usable_cpus()},
                     {"host_available_bytes", available_memory_bytes()},
                     {"environment", environment()}};
  if (state.devices.size() > 0 && !built_for(cuda_targets(), device.major, device.minor))
    finding.fail(text("the kernels of this build are for ", cuda_targets()));
  return finding;
}

Finding check_calibration(const Subject&, const Effort&) {
  Finding finding;
  finding.verdict = Verdict::skipped;
  finding.reason = "spillway calibrate measures CPUs alone";
  return finding;
}

}  // namespace spillway
