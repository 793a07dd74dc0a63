// Our CUDA kernels as far as they run without a GPU: everything but the launch.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/support/fibres.h"
#include "tests/support/op_case.h"

namespace spillway {

// Whether there is a kernel of ours for this op.
bool has_cuda_body(OpKind kind);

// As run_kernel(), by the bodies of the CUDA kernel.
std::vector<std::vector<std::byte>> run_cuda_body(const OpCase& c,
                                                  const std::vector<Values>& inputs,
                                                  ThreadOrder order, int64_t offset = 0);

}  // namespace spillway
