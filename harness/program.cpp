// Names, sizes and byte ranges of the IR's values. The rules a Program obeys are in verify.cpp.
#include "harness/program.h"

#include "harness/operands.h"

namespace spillway {

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
    case DType::e4m3:
      return "e4m3";
    case DType::e5m2:
      return "e5m2";
    case DType::nvfp4:
      return "nvfp4";
    case DType::nvfp4_rows:
      return "nvfp4_rows";
  }
  return "?";
}

const char* name_of(Role role) {
  static constexpr const char* names[role_count] = {"parameters", "gradients",   "optimizer",
                                                    "kept",       "in_flight",   "gathered_weights",
                                                    "logits",     "activations", "workspace"};
  return names[static_cast<size_t>(role)];
}

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp8:
      return "fp8";
    case Precision::nvfp4:
      return "nvfp4";
  }
  return "?";
}

ByteRange range_of(const Program& program, const Operand& operand, int64_t iteration) {
  const Tensor& tensor = program.at(operand.tensor);
  if (operand.index.whole) return {0, tensor.bytes()};
  return {slice_of(tensor, operand.index, iteration) * tensor.slice_bytes(), tensor.slice_bytes()};
}

}  // namespace spillway
