// Clocks, throttling, power and temperature of a GPU, as the driver's management library has them.
// It is opened at run time; where it is missing, everything is blank.
#pragma once

#include <memory>
#include <string>

#include "harness/trace.h"

namespace spillway {

class Nvml {
 public:
  // `pci_address` as CUDA writes it, "0000:65:00.0".
  explicit Nvml(const std::string& pci_address, const char* library = "libnvidia-ml.so.1");
  ~Nvml();

  bool found() const;                  // the library and the device
  DeviceClocks clocks() const;         // now; what cannot be read is blank
  std::string driver_version() const;  // "580.65.06"; empty: unknown

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace spillway
