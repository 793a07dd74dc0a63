// Launches of quantise.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/launch.cuh"
#include "harness/cuda/ops/quantise.cuh"

namespace spillway {

const CudaKernel quantise_cuda = kernel_line<QuantiseKernel>();

}  // namespace spillway
