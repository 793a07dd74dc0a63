// Launches of rope, rope_backward.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/launch.cuh"
#include "harness/cuda/ops/rope.cuh"

namespace spillway {

const CudaKernel rope_cuda = kernel_line<RopeForwardKernel>();
const CudaKernel rope_backward_cuda = kernel_line<RopeBackwardKernel>();

}  // namespace spillway
