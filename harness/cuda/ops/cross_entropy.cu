// Launches of cross_entropy.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/cross_entropy.cuh"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

const CudaKernel cross_entropy_cuda = kernel_line<CrossEntropyKernel>();

}  // namespace spillway
