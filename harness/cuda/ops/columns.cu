// Launches of columns, concat_columns.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/columns.cuh"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

const CudaKernel columns_cuda = kernel_line<ColumnsKernel>();
const CudaKernel concat_columns_cuda = kernel_line<ConcatColumnsKernel>();

}  // namespace spillway
