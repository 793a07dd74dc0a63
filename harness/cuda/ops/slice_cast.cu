// Launches of slice_cast, write_slice.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/launch.cuh"
#include "harness/cuda/ops/slice_cast.cuh"

namespace spillway {

const CudaKernel slice_cast_cuda = kernel_line<SliceCastKernel>();
const CudaKernel write_slice_cuda = kernel_line<WriteSliceKernel>();

}  // namespace spillway
