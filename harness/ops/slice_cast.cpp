// slice_cast: {one layer of a stacked shard} -> {local shard in the compute dtype}
// write_slice: {shard of a gradient} -> {one layer of the stacked gradient, in its dtype}
// Both convert element by element; shapes may differ where the number of elements agrees.
#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

std::string check_cast(const Program& program, const Op& op) {
  if (op.inputs.size() != 1 || op.outputs.size() != 1) return "has one input and one output";
  const int64_t read = elements_of(shape_of(program, op.inputs[0]));
  const int64_t written = elements_of(shape_of(program, op.outputs[0]));
  if (read != written) return text("reads ", read, " elements and writes ", written);
  for (const Operand& operand : {op.inputs[0], op.outputs[0]}) {
    if (program.at(operand.tensor).dtype == DType::i32)
      return program.at(operand.tensor).name + " is i32";
  }
  return require_distinct(op);
}

OpCost cost_cast(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

void run_cast(const OpCall& call, ThreadPool& pool) {
  for_blocks(pool, call.outputs[0].elements(), 64 * chunk, [&](int64_t first, int64_t count) {
    simd([&](auto) SPILLWAY_SIMD {
      float x[chunk];
      for (int64_t at = first, end = first + count; at < end; at += chunk) {
        const int64_t n = std::min(chunk, end - at);
        load(call.inputs[0], at, n, x);
        store(call.outputs[0], at, n, x);
      }
    });
  });
}

}  // namespace

const OpInfo slice_cast_info = {OpKind::slice_cast,
                                "slice_cast",
                                Lane::compute,
                                "one layer of a stacked shard, in the compute dtype",
                                check_cast,
                                cost_cast,
                                run_cast};
const OpInfo write_slice_info = {
    OpKind::write_slice, "write_slice", Lane::compute, "a gradient shard into its stacked gradient",
    check_cast,          cost_cast,     run_cast};

}  // namespace spillway
