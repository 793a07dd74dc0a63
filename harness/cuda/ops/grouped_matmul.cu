// Launches of grouped_matmul.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/grouped_matmul.cuh"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

const CudaKernel grouped_matmul_cuda = kernel_line<GroupedMatmulKernel>();

}  // namespace spillway
