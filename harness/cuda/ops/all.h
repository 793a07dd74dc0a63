// The CUDA kernel of every op that has one, each defined in its own file; kernels.cpp lists them.
#pragma once

#include "harness/cuda/kernel.h"

namespace spillway {

extern const CudaKernel copy_d2h_cuda, copy_h2d_cuda, copy_d2d_cuda;           // copy.cpp
extern const CudaKernel add_cuda;                                              // add.cu
extern const CudaKernel swiglu_cuda, swiglu_backward_cuda;                     // swiglu.cu
extern const CudaKernel slice_cast_cuda, write_slice_cuda;                     // slice_cast.cu
extern const CudaKernel rms_norm_cuda, rms_norm_backward_cuda;                 // rms_norm.cu
extern const CudaKernel rope_cuda, rope_backward_cuda;                         // rope.cu
extern const CudaKernel embed_cuda, embed_backward_cuda;                       // embed.cu
extern const CudaKernel add_bias_cuda, bias_backward_cuda;                     // bias.cu
extern const CudaKernel columns_cuda, concat_columns_cuda;                     // columns.cu
extern const CudaKernel adamw_cuda;                                            // adamw.cu
extern const CudaKernel cross_entropy_cuda;                                    // cross_entropy.cu
extern const CudaKernel mla_key_value_cuda, mla_key_value_backward_cuda;       // mla_key_value.cu
extern const CudaKernel route_sort_cuda, permute_cuda, permute_backward_cuda;  // permute.cu
extern const CudaKernel combine_cuda, combine_backward_cuda;                   // combine.cu
extern const CudaKernel router_cuda, router_backward_cuda;                     // router.cu
extern const CudaKernel capacity_mask_cuda, capacity_mask_backward_cuda;       // capacity_mask.cu
extern const CudaKernel quantise_cuda;                                         // quantise.cu
extern const CudaKernel matmul_cuda;                                           // matmul.cu
extern const CudaKernel grouped_matmul_cuda;                                   // grouped_matmul.cu
// capacity_einsum.cu
extern const CudaKernel dispatch_einsum_cuda, combine_einsum_cuda, mask_gradient_cuda;
// *product = *a * *b, *zero = 0, in device memory; multiply_scales.cu
void multiply_scales(const float* a, const float* b, float* product, float* zero,
                     cudaStream_t stream);
extern const CudaKernel attention_cuda;           // attention.cu
extern const CudaKernel attention_backward_cuda;  // attention_backward.cu

}  // namespace spillway
