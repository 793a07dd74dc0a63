// copy_d2h, copy_h2d, copy_d2d: the copy engine's work, one transfer an op.
#include <cuda_runtime_api.h>

#include "harness/cuda/check.h"
#include "harness/cuda/ops/all.h"

namespace spillway {
namespace {

void copy_bytes(const CudaCall& call, cudaMemcpyKind direction) {
  const Buffer& from = call.call.inputs[0];
  const auto bytes = static_cast<size_t>(from.elements() * bytes_of(from.dtype));
  cuda_check(cudaMemcpyAsync(call.call.outputs[0].data, from.data, bytes, direction, call.stream),
             "cudaMemcpyAsync");
}

void copy_to_host(const CudaCall& call) { copy_bytes(call, cudaMemcpyDeviceToHost); }
void copy_to_device(const CudaCall& call) { copy_bytes(call, cudaMemcpyHostToDevice); }
void copy_within_device(const CudaCall& call) { copy_bytes(call, cudaMemcpyDeviceToDevice); }

}  // namespace

const CudaKernel copy_d2h_cuda = {OpKind::copy_d2h, copy_to_host};
const CudaKernel copy_h2d_cuda = {OpKind::copy_h2d, copy_to_device};
const CudaKernel copy_d2d_cuda = {OpKind::copy_d2d, copy_within_device};

}  // namespace spillway
