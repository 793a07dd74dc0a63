// Launches of mla_key_value, mla_key_value_backward.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/launch.cuh"
#include "harness/cuda/ops/mla_key_value.cuh"

namespace spillway {

const CudaKernel mla_key_value_cuda = kernel_line<MlaKeyValueKernel>();
const CudaKernel mla_key_value_backward_cuda = kernel_line<MlaKeyValueBackwardKernel>();

}  // namespace spillway
