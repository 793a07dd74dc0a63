// What products ask of quantised operands, and what they make of them on a CPU.
#pragma once

#include <string>

#include "harness/ops.h"

namespace spillway {

// A product in a precision that wants quantised operands.
inline bool runs_narrow(const Op& op) {
  const Precision precision = op.attributes.precision;
  return is_product(op.kind) && (precision == Precision::fp8 || precision == Precision::nvfp4);
}

// Whether operand i (0 or 1) of a product is summed over its rows rather than its columns. Blocks
// of NVFP4 that share a scale must lie along the axis that is summed.
bool sums_rows(const Op& product, size_t i);

// Operands of a product whose shapes fit: distinct, quantised both or neither, blocks along the
// axis that is summed. Empty, or what is wrong.
std::string check_operands(const Program& program, const Op& product);

// Runs `product` on the values of its operands. Quantised ones: codes times block scales are exact in
// bf16 (at most 6 bits), their product is summed in fp32 and multiplied by both tensors' scales before
// it is rounded to the output.
using RunOp = void (*)(const OpCall&, ThreadPool&);
void run_on_values(const OpCall& call, ThreadPool& pool, RunOp product);

template <RunOp product>
void run_product(const OpCall& call, ThreadPool& pool) {
  run_on_values(call, pool, product);
}

}  // namespace spillway
