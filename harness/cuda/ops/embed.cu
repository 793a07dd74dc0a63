// Launches of embed, embed_backward.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/embed.cuh"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

const CudaKernel embed_cuda = kernel_line<EmbedKernel>();
const CudaKernel embed_backward_cuda = kernel_line<EmbedBackwardKernel>();

}  // namespace spillway
