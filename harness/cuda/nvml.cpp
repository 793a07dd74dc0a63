// NVML by dlopen. Its types, declared here, are those of nvml.h (NVML API reference guide).
#include "harness/cuda/nvml.h"

#include <array>

#include <dlfcn.h>

namespace spillway {
namespace {

using Return = int;
using Device = struct NvmlDevice*;
constexpr Return success = 0;
constexpr unsigned sm_clock = 1, memory_clock = 2;  // nvmlClockType_t
constexpr unsigned core_temperature = 0;            // nvmlTemperatureSensors_t

struct Reason {
  unsigned long long bit;
  const char* name;
};
// nvmlClocksEventReason*; an idle device and set application clocks are no throttling.
constexpr std::array reasons = {
    Reason{0x4, "power cap"},         Reason{0x8, "hardware slowdown"}, Reason{0x10, "sync boost"},
    Reason{0x20, "software thermal"}, Reason{0x40, "hardware thermal"}, Reason{0x80, "power brake"},
    Reason{0x100, "display clocks"},
};

}  // namespace

struct Nvml::State {
  explicit State(const char* name) : library(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  ~State() {
    if (device != nullptr && shutdown != nullptr) shutdown();
    if (library != nullptr) dlclose(library);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  template <class Function>
  Function* find(const char* name) const {
    return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
  }
  // NaN where it cannot be read.
  template <class... Arguments>
  double read(const char* name, double unit, Arguments... arguments) const {
    auto* call = find<Return(Device, Arguments..., unsigned*)>(name);
    unsigned value = 0;
    const bool known =
        call != nullptr && device != nullptr && call(device, arguments..., &value) == success;
    return known ? value * unit : DeviceClocks{}.watts;
  }

  void* library;
  Return (*shutdown)() = nullptr;
  Device device = nullptr;
};

Nvml::Nvml(const std::string& pci_address, const char* library)
    : state_(std::make_unique<State>(library)) {
  auto* init = state_->find<Return()>("nvmlInit_v2");
  auto* handle = state_->find<Return(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (init == nullptr || handle == nullptr || init() != success) return;
  state_->shutdown = state_->find<Return()>("nvmlShutdown");
  if (handle(pci_address.c_str(), &state_->device) == success) return;
  state_->device = nullptr;
  if (state_->shutdown != nullptr) state_->shutdown();
}

Nvml::~Nvml() = default;

bool Nvml::found() const { return state_->device != nullptr; }

DeviceClocks Nvml::clocks() const {
  DeviceClocks clocks;
  clocks.compute_hertz = state_->read("nvmlDeviceGetClockInfo", 1e6, sm_clock);
  clocks.memory_hertz = state_->read("nvmlDeviceGetClockInfo", 1e6, memory_clock);
  clocks.celsius = state_->read("nvmlDeviceGetTemperature", 1, core_temperature);
  clocks.watts = state_->read("nvmlDeviceGetPowerUsage", 1e-3);
  using Reasons = Return(Device, unsigned long long*);
  auto* read = state_->find<Reasons>("nvmlDeviceGetCurrentClocksEventReasons");
  if (read == nullptr) read = state_->find<Reasons>("nvmlDeviceGetCurrentClocksThrottleReasons");
  unsigned long long bits = 0;
  if (read == nullptr || !found() || read(state_->device, &bits) != success) return clocks;
  for (const Reason& reason : reasons)
    if ((bits & reason.bit) != 0) clocks.throttled.emplace_back(reason.name);
  return clocks;
}

std::string Nvml::driver_version() const {
  auto* read = state_->find<Return(char*, unsigned)>("nvmlSystemGetDriverVersion");
  std::array<char, 96> version{};
  if (read == nullptr || !found() || read(version.data(), version.size()) != success) return "";
  return version.data();
}

}  // namespace spillway
