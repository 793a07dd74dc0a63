// Which ops have a CUDA kernel. The kernels are in ops/.
#include <array>

#include "harness/cuda/kernel.h"
#if SPILLWAY_HAVE_CUDA
#include "harness/cuda/ops/all.h"
#endif

namespace spillway {
namespace {

#if SPILLWAY_HAVE_CUDA
constexpr std::array kernels = {
    &copy_d2h_cuda,
    &copy_h2d_cuda,
    &copy_d2d_cuda,
};
#else
constexpr std::array<const CudaKernel*, 0> kernels = {};
#endif

}  // namespace

const CudaKernel* cuda_kernel(OpKind kind) {
  for (const CudaKernel* kernel : kernels)
    if (kernel->kind == kind) return kernel;
  return nullptr;
}

}  // namespace spillway
