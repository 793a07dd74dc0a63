// What a call of the CUDA runtime returned, made into an error that says what failed and where.
// Includes CUDA: for files of harness/cuda/ alone.
#pragma once

#include <string>

#include <cuda_runtime_api.h>

namespace spillway {

// Throws RunError unless `code` is success: what was called, where (a segment, "step 3, lane d2h"),
// for which op, the error's name and text. The runtime's own memory of the error is cleared, so that
// the next call of this process is not blamed for it; errors that end the device's context stay,
// and the message says so.
void cuda_check(cudaError_t code, const char* what, const std::string& where = "",
                const std::string& op = "");

}  // namespace spillway
