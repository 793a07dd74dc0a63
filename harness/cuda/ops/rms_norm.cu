// Launches of rms_norm, rms_norm_backward.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/launch.cuh"
#include "harness/cuda/ops/rms_norm.cuh"

namespace spillway {

const CudaKernel rms_norm_cuda = kernel_line<RmsNormKernel>();
const CudaKernel rms_norm_backward_cuda = kernel_line<RmsNormBackwardKernel>();

}  // namespace spillway
