// Launches of grouped_matmul.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/emulated.cuh"
#include "harness/cuda/ops/grouped_matmul.cuh"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

const CudaKernel grouped_matmul_cuda = kernel_line<EmulatedProduct<GroupedMatmulKernel>>();

}  // namespace spillway
