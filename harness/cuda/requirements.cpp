// What a device or this build cannot run, found before anything runs.
#include <algorithm>
#include <set>

#include "harness/cuda/cuda_executor.h"
#include "harness/cuda/kernel.h"
#include "harness/cuda/memory.h"
#include "harness/error.h"
#include "harness/ops/quantised.h"

namespace spillway {
namespace {

// Tensor cores know FP8 from Ada and Hopper on, NVFP4 from Blackwell on.
constexpr int fp8_from = 89, nvfp4_from = 100;  // ten times the compute capability

std::string join(const std::set<std::string>& names) {
  std::string joined;
  for (const std::string& name : names)
    joined += (joined.empty() ? "" : ", ") + name;
  return joined;
}

template <class Visit>
void for_each_op(const Program& program, const Visit& visit) {
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops)
      visit(segment, op);
}

void refuse_precision(const Program& program, const CudaDevice& device, Precision precision,
                      int from) {
  if (10 * device.major + device.minor >= from) return;
  std::set<std::string> names;
  for_each_op(program, [&](const Segment& segment, const Op& op) {
    if (op.attributes.precision == precision) names.insert(segment.name + "/" + op.name);
  });
  if (names.empty()) return;
  throw InputError(text("precision: found ", name_of(precision), " on ", device.name,
                        ", compute capability ", device.major, ".", device.minor,
                        "; expected at least ", from / 10, ".", from % 10, ", or bf16, for ",
                        join(names)));
}

}  // namespace

void refuse_for_cuda(const Program& program, const CudaDevice& device) {
  if (program.devices > 1)
    throw InputError(
        text("several devices need several processes: the CUDA executor runs 1 "
             "device, found ",
             program.devices));
  refuse_precision(program, device, Precision::fp8, fp8_from);
  refuse_precision(program, device, Precision::nvfp4, nvfp4_from);
  std::set<std::string> missing;
  for_each_op(program, [&](const Segment&, const Op& op) {
    const bool by_nccl = info(op.kind).lane == Lane::collective;
    if (!by_nccl && cuda_kernel(op.kind) == nullptr) missing.insert(info(op.kind).name);
  });
  if (!missing.empty())
    throw InputError(text("--executor cuda: this build has no CUDA kernel for ", join(missing),
                          "; expected a program without them, or --executor cpu or sim"));
}

int64_t cuda_workspace_bytes(const Program& program, const Op& op) {
  const CudaKernel* kernel = cuda_kernel(op.kind);
  if (kernel == nullptr || kernel->workspace_bytes == nullptr) return 0;
  return kernel->workspace_bytes(program, op);
}

std::function<int64_t(const Program&, const Op&)> cuda_workspaces(CudaMemory& memory, MatmulBy by) {
  if (by == MatmulBy::cublaslt && memory.products() == nullptr)
    throw InputError(text("--matmul: found cublaslt, but it cannot be opened (",
                          memory.why_no_products(), "); expected plain"));
  const bool library = by != MatmulBy::plain && memory.products() != nullptr;
  const int64_t product = library ? product_workspace_bytes(memory.gpu().device().major) : 0;
  return [product](const Program& program, const Op& op) {
    const int64_t own = cuda_workspace_bytes(program, op);
    if (product == 0 || !is_dense_product(op)) return own;
    // What our kernels want to emulate a narrow product in is not planned beside a library.
    return runs_narrow(op) ? product : std::max(own, product);
  };
}

}  // namespace spillway
