// Launches of attention.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/attention.cuh"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

const CudaKernel attention_cuda = kernel_line<AttentionKernel>();

}  // namespace spillway
