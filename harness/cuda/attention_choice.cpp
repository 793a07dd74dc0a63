// Which attention ops a library may run, and by what those of a program do.
#include <cmath>
#include <set>

#include "harness/cuda/cudnn.h"
#include "harness/error.h"

namespace spillway {

std::string cudnn_version_text(int version) {
  return text(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

std::optional<AttentionShape4d> library_attention(const Op& op, DType dtype) {
  const bool backward = op.kind == OpKind::attention_backward;
  const Attributes& a = op.attributes;
  if ((op.kind != OpKind::attention && !backward) || dtype != DType::bf16 || a.plain)
    return std::nullopt;
  return AttentionShape4d{
      a.batch,
      a.seq,
      a.heads,
      a.kv_heads,
      a.head_dim,
      a.value_dim == 0 ? a.head_dim : a.value_dim,
      a.scale == 0 ? 1.f / std::sqrt(static_cast<float>(a.head_dim)) : static_cast<float>(a.scale),
      backward};
}

namespace {

bool is_attention(const Op& op) {
  return op.kind == OpKind::attention || op.kind == OpKind::attention_backward;
}

std::string kernel_of(const Program& program, const Op& op) {
  const auto shape = library_attention(op, program.at(op.inputs[0].tensor).dtype);
  if (!shape) return "plain";
  const AttentionPlan& found = cudnn_attention(*shape);
  if (found.plan != nullptr) return "cuDNN " + cudnn_version_text(cudnn_state().version);
  const bool here = cudnn_state().problem.empty();  // it refuses one direction, maybe not both
  return text("plain", here ? " for " + std::string(info(op.kind).name) : "", " (", found.reason,
              ")");
}

}  // namespace

void choose_plain_attention(Program& program) {
  for (Segment& segment : program.segments)
    for (Op& op : segment.ops)
      if (is_attention(op)) op.attributes.plain = true;
}

std::string attention_kernels(const Program& program) {
  std::set<std::string> kernels;
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops)
      if (is_attention(op)) kernels.insert(kernel_of(program, op));
  std::string joined;
  for (const std::string& kernel : kernels)
    joined += (joined.empty() ? "" : ", ") + kernel;
  return joined;
}

}  // namespace spillway
