// Launches of router, router_backward.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/launch.cuh"
#include "harness/cuda/ops/router.cuh"

namespace spillway {

const CudaKernel router_cuda = kernel_line<RouterKernel>();
const CudaKernel router_backward_cuda = kernel_line<RouterBackwardKernel>();

}  // namespace spillway
