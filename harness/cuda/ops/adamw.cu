// Launches of adamw.
#include "harness/cuda/ops/adamw.cuh"
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

const CudaKernel adamw_cuda = kernel_line<AdamwKernel>();

}  // namespace spillway
