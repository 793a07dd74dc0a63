// Launches of route_sort, permute, permute_backward.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/launch.cuh"
#include "harness/cuda/ops/permute.cuh"

namespace spillway {

const CudaKernel route_sort_cuda = kernel_line<RouteSortKernel>();
const CudaKernel permute_cuda = kernel_line<PermuteKernel>();
const CudaKernel permute_backward_cuda = kernel_line<PermuteBackwardKernel>();

}  // namespace spillway
