// Launches of matmul.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/emulated.cuh"
#include "harness/cuda/ops/launch.cuh"
#include "harness/cuda/ops/matmul.cuh"

namespace spillway {

const CudaKernel matmul_cuda = kernel_line<EmulatedProduct<MatmulKernel>>();

}  // namespace spillway
