// cuda_check().
#if SPILLWAY_HAVE_CUDA

#include "harness/cuda/check.h"

#include <algorithm>
#include <array>

#include "harness/error.h"

namespace spillway {
namespace {

// After these every later call in the process returns an error too (CUDA runtime API, error types:
// "the process must be terminated and relaunched").
bool ends_the_context(cudaError_t code) {
  constexpr std::array fatal = {
      cudaErrorIllegalAddress,     cudaErrorLaunchTimeout,       cudaErrorHardwareStackError,
      cudaErrorIllegalInstruction, cudaErrorMisalignedAddress,   cudaErrorInvalidAddressSpace,
      cudaErrorInvalidPc,          cudaErrorLaunchFailure,       cudaErrorAssert,
      cudaErrorECCUncorrectable,   cudaErrorNvlinkUncorrectable, cudaErrorContained,
      cudaErrorTensorMemoryLeak,   cudaErrorExternalDevice,
  };
  return std::find(fatal.begin(), fatal.end(), code) != fatal.end();
}

}  // namespace

void cuda_check(cudaError_t code, const char* what, const std::string& where,
                const std::string& op) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  std::string place;
  if (!where.empty()) place += ", " + where;
  if (!op.empty()) place += ", op " + op;
  throw RunError(text(
      what, place, ": ", cudaGetErrorName(code), " (", cudaGetErrorString(code), ")",
      ends_the_context(code) ? "; the device's context is lost, and with it every later point of "
                               "this process: start it again"
                             : ""));
}

}  // namespace spillway

#endif
