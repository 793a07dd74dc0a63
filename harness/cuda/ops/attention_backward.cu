// Launches of attention_backward.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/attention_backward.cuh"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

const CudaKernel attention_backward_cuda = kernel_line<AttentionBackwardKernel>();

}  // namespace spillway
