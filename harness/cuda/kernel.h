// The table of CUDA kernels: what an op's file in ops/ offers to the executor. No CUDA header is
// needed to read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "harness/ops.h"

struct CUstream_st;
using cudaStream_t = CUstream_st*;  // as in cuda_runtime_api.h

namespace spillway {

struct CudaCall {
  const OpCall& call;        // op, buffers at device addresses; call.step is not set
  const std::int64_t* step;  // device address of the optimizer step (0-based): a graph is replayed
  std::span<std::byte> workspace;  // device memory, as many bytes as workspace_bytes() asked for,
                                   // aligned to 256; contents undefined
  cudaStream_t stream;
};

struct CudaKernel {
  OpKind kind;
  // Launches on call.stream and returns: no sync, no allocation. Throws RunError where a library
  // refuses; the executor asks for the launch's own error.
  void (*run)(const CudaCall& call);
  std::int64_t (*workspace_bytes)(const Program&, const Op&) = nullptr;  // null: none
};

// Null: this build has none for it.
const CudaKernel* cuda_kernel(OpKind kind);

}  // namespace spillway
