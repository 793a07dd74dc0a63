// What a point on a GPU asks of this machine: a driver, memory, figures for its scheduler.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/cuda/cuda_executor.h"
#include "harness/cuda/cudnn.h"

namespace spillway {

// Opens the GPU. Throws InputError saying what is missing, and how to get it, where none can be used.
std::shared_ptr<CudaMemory> require_cuda();

// The machine file whose figures come nearest to a GPU of this name ("NVIDIA H200").
std::string machine_of_gpu(const std::string& name);

// The GPU a point ran on, and what it took of it.
struct GpuRun {
  CudaDevice device;
  CudaUse use;
  CudaMatmuls matmuls = {};
  int64_t workspace_bytes = 0;  // of the arena, at the peak
  int runtime_version = 0, driver_version = 0;
  std::string attention = {};  // by whose kernels; empty: the program has none
};
nlohmann::json gpu_json(const GpuRun& gpu);

}  // namespace spillway
