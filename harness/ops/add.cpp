// add: z = x + y, elementwise. {x[*], y[*]} -> {z[*]}; z may be x or y.
#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

std::string check_add(const Program& program, const Op& op) {
  return match(program, op, "x[*]:x y[*]:x -> z[*]:x").error;
}

OpCost cost_add(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

void run_add(const OpCall& call, ThreadPool& pool) {
  for_blocks(pool, call.outputs[0].elements(), 32 * chunk, [&](int64_t first, int64_t count) {
    simd([&](auto) SPILLWAY_SIMD {
      float x[chunk], y[chunk];
      for (int64_t at = first, end = first + count; at < end; at += chunk) {
        const int64_t n = std::min(chunk, end - at);
        load(call.inputs[0], at, n, x);
        load(call.inputs[1], at, n, y);
        for (int64_t i = 0; i < n; ++i)
          x[i] += y[i];
        store(call.outputs[0], at, n, x);
      }
    });
  });
}

}  // namespace

const OpInfo add_info = {OpKind::add, "add",    Lane::compute, "z = x + y",
                         check_add,   cost_add, run_add};

}  // namespace spillway
