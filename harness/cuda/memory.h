// One device with its two arenas, shared by the executors of a process one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "harness/cuda/objects.h"
#include "harness/cuda/products.h"

namespace spillway {

// What every step hands to the device, and gets back.
struct StepWords {
  int64_t step = 0;  // of the optimizer, 0-based
  float loss = 0;
};

class CudaMemory {
 public:
  static constexpr int64_t staging_bytes = int64_t{32} << 20;  // whole blocks of a digest

  explicit CudaMemory(std::unique_ptr<Gpu> gpu, OpenedLibrary products = {nullptr, "none given"});

  // Makes both arenas at least so large; what they held is lost where they grow. Throws RunError with
  // the bytes refused.
  void reserve(int64_t device_bytes, int64_t host_bytes);

  Gpu& gpu() { return *gpu_; }
  const Gpu& gpu() const { return *gpu_; }
  ProductLibrary* products() const { return products_.library.get(); }  // null: there is none
  const std::string& why_no_products() const { return products_.why; }
  std::byte* device() const { return device_.get(); }
  std::byte* host() const { return host_.get(); }
  int64_t device_reserved() const { return device_bytes_; }
  int64_t host_reserved() const { return host_bytes_; }
  static int64_t host_bytes_of(int64_t bytes);  // an arena of so many bytes takes as many

  // Page-locked memory through which values enter and leave the device.
  std::byte* staging() const { return staging_.get(); }
  StepWords* device_words() const { return reinterpret_cast<StepWords*>(device_words_.get()); }
  StepWords* host_words() const { return reinterpret_cast<StepWords*>(host_words_.get()); }

 private:
  std::unique_ptr<Gpu> gpu_;
  OpenedLibrary products_;
  GpuDeviceMemory device_, device_words_;
  GpuHostMemory host_, host_words_, staging_;
  int64_t device_bytes_ = 0, host_bytes_ = 0;
};

}  // namespace spillway
