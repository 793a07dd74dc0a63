// Phases of CUDA kernels on fibres, tile after tile.
#include "tests/support/cuda_bodies.h"

#include "harness/cuda/ops/adamw.cuh"
#include "harness/cuda/ops/add.cuh"
#include "harness/cuda/ops/attention.cuh"
#include "harness/cuda/ops/attention_backward.cuh"
#include "harness/cuda/ops/bias.cuh"
#include "harness/cuda/ops/capacity_einsum.cuh"
#include "harness/cuda/ops/capacity_mask.cuh"
#include "harness/cuda/ops/columns.cuh"
#include "harness/cuda/ops/combine.cuh"
#include "harness/cuda/ops/cross_entropy.cuh"
#include "harness/cuda/ops/embed.cuh"
#include "harness/cuda/ops/emulated.cuh"
#include "harness/cuda/ops/grouped_matmul.cuh"
#include "harness/cuda/ops/matmul.cuh"
#include "harness/cuda/ops/mla_key_value.cuh"
#include "harness/cuda/ops/permute.cuh"
#include "harness/cuda/ops/quantise.cuh"
#include "harness/cuda/ops/rms_norm.cuh"
#include "harness/cuda/ops/rope.cuh"
#include "harness/cuda/ops/router.cuh"
#include "harness/cuda/ops/slice_cast.cuh"
#include "harness/cuda/ops/swiglu.cuh"
#include "harness/error.h"

namespace spillway {
namespace {

// Their stacks are kept from case to case.
Fibres& kept_fibres() {
  static thread_local Fibres fibres;
  return fibres;
}

// Tiles are run in the order of threads too.
class HostLaunch {
 public:
  explicit HostLaunch(ThreadOrder order) : order_(order), fibres_(kept_fibres()) {}

  template <class Body>
  void operator()(const Body& body, int64_t tiles) const {
    static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= 4096);
    const int64_t scratch = body.scratch_bytes();
    check(scratch <= most_scratch, "a group needs ", scratch, " bytes of shared memory");
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t tile = order_ == ThreadOrder::rising ? i : tiles - 1 - i;
      fibres_.run(Body::threads, scratch, order_,
                  [&](const FibreGroup& group) { body(group, tile); });
    }
  }

 private:
  ThreadOrder order_;
  Fibres& fibres_;
};

struct HostKernel {
  OpKind kind;
  void (*run)(const KernelCall&, const HostLaunch&);
  int64_t (*workspace_bytes)(const Program&, const Op&);
};

template <class Kernel>
constexpr HostKernel host_kernel() {
  if constexpr (requires { &Kernel::workspace_bytes; }) {
    return {Kernel::kind, &Kernel::template run<HostLaunch>, &Kernel::workspace_bytes};
  } else {
    return {Kernel::kind, &Kernel::template run<HostLaunch>, nullptr};
  }
}

constexpr HostKernel kernels[] = {
    host_kernel<AdamwKernel>(),
    host_kernel<AddBiasKernel>(),
    host_kernel<AddKernel>(),
    host_kernel<AttentionBackwardKernel>(),
    host_kernel<AttentionKernel>(),
    host_kernel<BiasBackwardKernel>(),
    host_kernel<CapacityMaskBackwardKernel>(),
    host_kernel<CapacityMaskKernel>(),
    host_kernel<ColumnsKernel>(),
    host_kernel<CombineBackwardKernel>(),
    host_kernel<EmulatedProduct<CombineEinsumKernel>>(),
    host_kernel<CombineKernel>(),
    host_kernel<ConcatColumnsKernel>(),
    host_kernel<CrossEntropyKernel>(),
    host_kernel<EmulatedProduct<DispatchEinsumKernel>>(),
    host_kernel<EmbedBackwardKernel>(),
    host_kernel<EmbedKernel>(),
    host_kernel<EmulatedProduct<GroupedMatmulKernel>>(),
    host_kernel<EmulatedProduct<MaskGradientKernel>>(),
    host_kernel<EmulatedProduct<MatmulKernel>>(),
    host_kernel<MlaKeyValueBackwardKernel>(),
    host_kernel<MlaKeyValueKernel>(),
    host_kernel<PermuteBackwardKernel>(),
    host_kernel<PermuteKernel>(),
    host_kernel<QuantiseKernel>(),
    host_kernel<RmsNormBackwardKernel>(),
    host_kernel<RmsNormKernel>(),
    host_kernel<RopeBackwardKernel>(),
    host_kernel<RopeForwardKernel>(),
    host_kernel<RouteSortKernel>(),
    host_kernel<RouterBackwardKernel>(),
    host_kernel<RouterKernel>(),
    host_kernel<SliceCastKernel>(),
    host_kernel<SwigluBackwardKernel>(),
    host_kernel<SwigluKernel>(),
    host_kernel<WriteSliceKernel>(),
};

const HostKernel* find_kernel(OpKind kind) {
  for (const HostKernel& kernel : kernels)
    if (kernel.kind == kind) return &kernel;
  return nullptr;
}

}  // namespace

bool has_cuda_body(OpKind kind) { return find_kernel(kind) != nullptr; }

std::vector<std::vector<std::byte>> run_cuda_body(const OpCase& c,
                                                  const std::vector<Values>& inputs,
                                                  ThreadOrder order, int64_t offset) {
  const HostKernel* kernel = find_kernel(c.kind);
  check(kernel != nullptr, "no CUDA kernel of ours for ", info(c.kind).name);
  const OneOp one = program_of(c);
  const bool none = kernel->workspace_bytes == nullptr;
  const int64_t bytes = none ? 0 : kernel->workspace_bytes(one.program, one.op);
  return run_by(c, inputs, offset, [&](const OpCall& call) {
    // Exactly as much as was asked for, undefined before.
    const std::unique_ptr<std::byte[]> workspace(new std::byte[static_cast<size_t>(bytes)]);
    std::fill_n(workspace.get(), bytes, std::byte{0xff});
    kernel->run({call, &c.step, workspace.get()}, HostLaunch(order));
  });
}

}  // namespace spillway
