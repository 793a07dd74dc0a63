// cross_entropy: {logits[T,V], targets[T] i32} -> {loss[1] f32, dlogits[T,V]}
// loss = mean over rows of log(sum(exp(logits))) - logits[target]; dlogits is its gradient, the 1 /
// T included, and may be the logits tensor itself.
#include <cmath>
#include <vector>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

std::string check_loss(const Program& program, const Op& op) {
  const Signature s =
      match(program, op, "logits[T,V]:x targets[T]:i32 -> loss[N]:f32 dlogits[T,V]:x");
  if (!s.error.empty()) return s.error;
  return s["N"] == 1 ? "" : text("loss has ", s["N"], " elements, expected 1");
}

OpCost cost_loss(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

// x holds the logits of one row and becomes their gradient; returns the row's loss.
template <class I>
SPILLWAY_INLINE double one_row(float* x, int64_t vocabulary, int64_t target, float inverse_rows,
                               I isa) {
  const float largest = maximum(vocabulary, x, x[0], isa), at_target = x[target];
  for (int64_t i = 0; i < vocabulary; ++i)
    x[i] = exp_fast(x[i] - largest);
  const float total = sum(vocabulary, x, isa);
  const float scale = inverse_rows / total;
  for (int64_t i = 0; i < vocabulary; ++i)
    x[i] *= scale;
  x[target] -= inverse_rows;
  return std::log(static_cast<double>(total)) + static_cast<double>(largest) -
         static_cast<double>(at_target);
}

void run_loss(const OpCall& call, ThreadPool& pool) {
  const int64_t rows = call.inputs[0].shape[0], vocabulary = call.inputs[0].shape[1];
  const int32_t* targets = call.inputs[1].as<int32_t>();
  const float inverse_rows = 1.f / static_cast<float>(rows);
  std::vector<double> losses(static_cast<size_t>(rows));
  for_blocks(pool, rows, rows_per_block(vocabulary), [&](int64_t first, int64_t count) {
    simd([&](auto isa) SPILLWAY_SIMD {
      float* x = row_scratch(0, vocabulary);
      for (int64_t t = first; t < first + count; ++t) {
        check(targets[t] >= 0 && targets[t] < vocabulary, "target ", targets[t],
              " is outside the vocabulary of ", vocabulary);
        load(call.inputs[0], t * vocabulary, vocabulary, x);
        losses[static_cast<size_t>(t)] = one_row(x, vocabulary, targets[t], inverse_rows, isa);
        store(call.outputs[1], t * vocabulary, vocabulary, x);
      }
    });
  });
  double sum = 0;
  for (const double loss : losses)
    sum += loss;
  *call.outputs[0].as<float>() = static_cast<float>(sum / static_cast<double>(rows));
}

}  // namespace

const OpInfo cross_entropy_info = {OpKind::cross_entropy,
                                   "cross_entropy",
                                   Lane::compute,
                                   "mean log loss over tokens and its gradient",
                                   check_loss,
                                   cost_loss,
                                   run_loss};

}  // namespace spillway
