// Launches of capacity_mask, capacity_mask_backward.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/capacity_mask.cuh"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

const CudaKernel capacity_mask_cuda = kernel_line<CapacityMaskKernel>();
const CudaKernel capacity_mask_backward_cuda = kernel_line<CapacityMaskBackwardKernel>();

}  // namespace spillway
