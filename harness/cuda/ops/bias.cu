// Launches of add_bias, bias_backward.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/bias.cuh"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

const CudaKernel add_bias_cuda = kernel_line<AddBiasKernel>();
const CudaKernel bias_backward_cuda = kernel_line<BiasBackwardKernel>();

}  // namespace spillway
