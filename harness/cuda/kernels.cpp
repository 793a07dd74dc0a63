// Which ops have a CUDA kernel. The kernels are in ops/.
#include <array>

#include "harness/cuda/kernel.h"
#if SPILLWAY_HAVE_CUDA
#include "harness/cuda/ops/all.h"
#endif

namespace spillway {
namespace {

#if SPILLWAY_HAVE_CUDA
constexpr std::array all_kernels = {
    &copy_d2h_cuda,
    &copy_h2d_cuda,
    &copy_d2d_cuda,
    &add_cuda,
    &swiglu_cuda,
    &swiglu_backward_cuda,
    &slice_cast_cuda,
    &write_slice_cuda,
    &rms_norm_cuda,
    &rms_norm_backward_cuda,
    &rope_cuda,
    &rope_backward_cuda,
    &embed_cuda,
    &embed_backward_cuda,
    &add_bias_cuda,
    &bias_backward_cuda,
    &columns_cuda,
    &concat_columns_cuda,
    &adamw_cuda,
    &cross_entropy_cuda,
    &mla_key_value_cuda,
    &mla_key_value_backward_cuda,
    &route_sort_cuda,
    &permute_cuda,
    &permute_backward_cuda,
    &combine_cuda,
    &combine_backward_cuda,
    &router_cuda,
    &router_backward_cuda,
    &capacity_mask_cuda,
    &capacity_mask_backward_cuda,
    &quantise_cuda,
    &matmul_cuda,
    &grouped_matmul_cuda,
    &dispatch_einsum_cuda,
    &combine_einsum_cuda,
    &mask_gradient_cuda,
    &attention_cuda,
    &attention_backward_cuda,
};
#else
constexpr std::array<const CudaKernel*, 0> all_kernels = {};
#endif

}  // namespace

const CudaKernel* cuda_kernel(OpKind kind) {
  for (const CudaKernel* kernel : all_kernels)
    if (kernel->kind == kind) return kernel;
  return nullptr;
}

}  // namespace spillway
