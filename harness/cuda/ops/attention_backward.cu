// Launches of attention_backward: cuDNN's deterministic one where it takes the shape, else our own.
#include "harness/cuda/ops/all.h"
#include "harness/cuda/ops/attention_backward.cuh"
#include "harness/cuda/ops/attention_library.h"

namespace spillway {
namespace {

int64_t gradient_workspace_bytes(const Program& program, const Op& op) {
  return library_workspace_bytes(program, op)
      .value_or(AttentionBackwardKernel::workspace_bytes(program, op));
}

void run_attention_backward(const CudaCall& call) {
  const OpCall& op = call.call;
  const auto library = find_library(*op.op, op.inputs[0].dtype);
  if (!library) return run_on_device<AttentionBackwardKernel>(call);
  AttentionAddresses at;
  at.q = op.inputs[0].as<std::byte>();
  at.k = op.inputs[1].as<std::byte>();
  at.v = op.inputs[2].as<std::byte>();
  at.out = op.inputs[3].as<std::byte>();
  at.stats = call.workspace.data();
  at.dout = op.inputs[5].as<std::byte>();
  at.dq = op.outputs[0].as<std::byte>();
  at.dk = op.outputs[1].as<std::byte>();
  at.dv = op.outputs[2].as<std::byte>();
  transpose_stats(call, library->shape, true);
  library->plan->run(at, call.workspace.data() + stats_room(library->shape), call.stream);
}

}  // namespace

const CudaKernel attention_backward_cuda = {OpKind::attention_backward, run_attention_backward,
                                            gradient_workspace_bytes};

}  // namespace spillway
