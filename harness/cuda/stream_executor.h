// The CUDA executor over any Gpu and any table of kernels: what make_cuda_executor() makes of the
// real ones, and tests of a device that they can watch.
#pragma once

#include <memory>

#include "harness/cuda/cuda_executor.h"
#include "harness/cuda/memory.h"
#include "harness/cuda/walk.h"

namespace spillway {

std::unique_ptr<CudaExecutor> make_stream_executor(const Schedule& schedule, const Plan& plan,
                                                   const CudaOptions& options,
                                                   std::shared_ptr<CudaMemory> memory,
                                                   KernelOf kernels);

}  // namespace spillway
