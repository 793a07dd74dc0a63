// Launches of swiglu, swiglu_backward.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/launch.cuh"
#include "harness/cuda/ops/swiglu.cuh"

namespace spillway {

const CudaKernel swiglu_cuda = kernel_line<SwigluKernel>();
const CudaKernel swiglu_backward_cuda = kernel_line<SwigluBackwardKernel>();

}  // namespace spillway
