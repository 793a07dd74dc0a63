// Launches of combine, combine_backward.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/combine.cuh"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

const CudaKernel combine_cuda = kernel_line<CombineKernel>();
const CudaKernel combine_backward_cuda = kernel_line<CombineBackwardKernel>();

}  // namespace spillway
