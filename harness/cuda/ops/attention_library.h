// Attention ops between cuDNN and our plain kernels: what attention.cu and attention_backward.cu
// share. The library's log-sum-exp is in the workspace, before its own.
#pragma once

#include "harness/cuda/cudnn.h"
#include "harness/cuda/kernel.h"
#include "harness/cuda/ops/attention_stats.cuh"
#include "harness/cuda/ops/launch.cuh"

namespace spillway {

inline constexpr int64_t workspace_alignment = 256;

inline int64_t stats_room(const AttentionShape4d& shape) {
  return parts_of(shape.stats_bytes(), workspace_alignment) * workspace_alignment;
}

// Of an op that a library runs; nothing where a plain kernel does.
struct LibraryAttention {
  AttentionShape4d shape;
  const CudnnAttention* plan = nullptr;
};
inline std::optional<LibraryAttention> find_library(const Op& op, DType dtype) {
  const std::optional<AttentionShape4d> shape = library_attention(op, dtype);
  if (!shape) return std::nullopt;
  const AttentionPlan& found = cudnn_attention(*shape);
  if (found.plan == nullptr) return std::nullopt;
  return LibraryAttention{*shape, found.plan};
}

inline std::optional<int64_t> library_workspace_bytes(const Program& program, const Op& op) {
  const auto library = find_library(op, program.at(op.inputs[0].tensor).dtype);
  if (!library) return std::nullopt;
  return stats_room(library->shape) + library->plan->workspace_bytes();
}

// Between the op's lse and the workspace.
inline void transpose_stats(const CudaCall& call, const AttentionShape4d& s, bool to_library) {
  auto* lse = call.call.op->kind == OpKind::attention ? call.call.outputs[1].as<float>()
                                                      : call.call.inputs[4].as<float>();
  auto* packed = reinterpret_cast<float*>(call.workspace.data());
  const TransposeStats body{s.batch, to_library ? s.seq : s.heads, to_library ? s.heads : s.seq,
                            to_library ? lse : packed, to_library ? packed : lse};
  Launch(call.stream, "attention")(body, body.tiles());
}

}  // namespace spillway
