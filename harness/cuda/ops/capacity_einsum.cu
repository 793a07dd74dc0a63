// Launches of dispatch_einsum, combine_einsum, mask_gradient.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/capacity_einsum.cuh"
#include "harness/cuda/ops/emulated.cuh"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

const CudaKernel dispatch_einsum_cuda = kernel_line<EmulatedProduct<DispatchEinsumKernel>>();
const CudaKernel combine_einsum_cuda = kernel_line<EmulatedProduct<CombineEinsumKernel>>();
const CudaKernel mask_gradient_cuda = kernel_line<EmulatedProduct<MaskGradientKernel>>();

}  // namespace spillway
