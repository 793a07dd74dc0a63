// Launches of attention: cuDNN's where it takes the shape, else our own.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/attention.cuh"
#include "harness/cuda/ops/attention_library.h"

namespace spillway {
namespace {

int64_t attention_workspace_bytes(const Program& program, const Op& op) {
  return library_workspace_bytes(program, op).value_or(0);
}

void run_attention(const CudaCall& call) {
  const OpCall& op = call.call;
  const auto library = find_library(*op.op, op.inputs[0].dtype);
  if (!library) return run_on_device<AttentionKernel>(call);
  AttentionAddresses at;
  at.q = op.inputs[0].as<std::byte>();
  at.k = op.inputs[1].as<std::byte>();
  at.v = op.inputs[2].as<std::byte>();
  at.out = op.outputs[0].as<std::byte>();
  at.stats = call.workspace.data();
  library->plan->run(at, call.workspace.data() + stats_room(library->shape), call.stream);
  transpose_stats(call, library->shape, false);
}

}  // namespace

const CudaKernel attention_cuda = {OpKind::attention, run_attention, attention_workspace_bytes};

}  // namespace spillway
