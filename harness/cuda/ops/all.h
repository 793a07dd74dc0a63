// The CUDA kernel of every op that has one, each defined in its own file; kernels.cpp lists them.
#pragma once

#include "harness/cuda/kernel.h"

namespace spillway {

extern const CudaKernel copy_d2h_cuda, copy_h2d_cuda, copy_d2d_cuda;  // copy.cpp

}  // namespace spillway
