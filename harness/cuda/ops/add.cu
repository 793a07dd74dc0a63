// Launches of add.
#include "harness/cuda/ops/add.cuh"
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

const CudaKernel add_cuda = kernel_line<AddKernel>();

}  // namespace spillway
