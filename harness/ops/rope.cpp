// rope: rotates the pair (i, i + head_dim / 2) of every head by position * frequency i (Hugging
// Face's rotate_half).
//   rope {x[T, heads * head_dim]} -> {y}; rope_backward rotates the other way. Row t is at position
//   t % seq. y may be x.
// Attributes: heads, head_dim, seq, rope.
#include "harness/ops/rope.h"

#include <cmath>
#include <memory>
#include <mutex>
#include <numbers>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {

std::vector<float> rope_frequencies(int64_t head_dim, const Rope& rope) {
  const double original = static_cast<double>(rope.original_max_position);
  const double longest = original / rope.low_freq_factor,
               shortest = original / rope.high_freq_factor;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double plain =
        std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    const double wavelength = 2 * std::numbers::pi / plain;
    double f = plain;
    if (rope.factor != 1 && wavelength > longest) {
      f = plain / rope.factor;
    } else if (rope.factor != 1 && wavelength >= shortest) {
      const double smooth = (original / wavelength - rope.low_freq_factor) /
                            (rope.high_freq_factor - rope.low_freq_factor);
      f = (1 - smooth) * plain / rope.factor + smooth * plain;
    }
    frequencies.push_back(static_cast<float>(f));
  }
  return frequencies;
}

namespace {

std::string check_rope(const Program& program, const Op& op) {
  const Attributes& a = op.attributes;
  const Signature s = match(program, op, "x[T,W]:x -> y[T,W]:x");
  if (!s.error.empty()) return s.error;
  const std::string positive =
      require_positive({{"heads", a.heads}, {"head_dim", a.head_dim}, {"seq", a.seq}});
  if (!positive.empty()) return positive;
  if (a.head_dim % 2 != 0)
    return text("attribute head_dim is ", a.head_dim, ", expected an even number");
  if (s["W"] != a.heads * a.head_dim)
    return text("width is ", s["W"], ", expected heads * head_dim");
  if (s["T"] % a.seq != 0)
    return text("has ", s["T"], " rows, expected a multiple of seq = ", a.seq);
  return "";
}

OpCost cost_rope(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

// cos and sin of position * frequency, [seq, head_dim / 2] each. The angle is a fp32 product, as in
// transformers.
struct Table {
  int64_t seq, head_dim;
  Rope rope;
  std::vector<float> cosine, sine;
};

std::shared_ptr<const Table> make_table(const Attributes& a) {
  auto table = std::make_shared<Table>(Table{a.seq, a.head_dim, a.rope, {}, {}});
  const std::vector<float> frequencies = rope_frequencies(a.head_dim, a.rope);
  for (int64_t position = 0; position < a.seq; ++position) {
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      table->cosine.push_back(std::cos(angle));
      table->sine.push_back(std::sin(angle));
    }
  }
  return table;
}

// The tables used last; a step needs one, a sweep a few.
std::shared_ptr<const Table> table_for(const Attributes& a) {
  static std::mutex mutex;
  static std::vector<std::shared_ptr<const Table>> tables;
  const std::lock_guard lock(mutex);
  for (const auto& table : tables) {
    if (table->seq == a.seq && table->head_dim == a.head_dim && table->rope == a.rope) return table;
  }
  constexpr size_t kept = 4;
  if (tables.size() == kept) tables.erase(tables.begin());
  return tables.emplace_back(make_table(a));
}

// `direction` is 1 or -1. The two halves of a head are loaded before either is stored: in place is
// fine.
void rotate(const OpCall& call, ThreadPool& pool, float direction) {
  const Attributes& a = call.op->attributes;
  const auto table = table_for(a);
  const int64_t half = a.head_dim / 2, width = a.heads * a.head_dim;
  for_blocks(pool, call.inputs[0].shape[0], rows_per_block(width),
             [&](int64_t first, int64_t count) {
               simd([&](auto) SPILLWAY_SIMD {
                 float *x = row_scratch(0, width), *y = row_scratch(1, width);
                 for (int64_t t = first; t < first + count; ++t) {
                   const float* cosine = table->cosine.data() + t % a.seq * half;
                   const float* sine = table->sine.data() + t % a.seq * half;
                   load(call.inputs[0], t * width, width, x);
                   for (int64_t head = 0; head < width; head += a.head_dim) {
                     const float *low = x + head, *high = low + half;
                     float* __restrict out_low = y + head, * __restrict out_high = out_low + half;
                     for (int64_t i = 0; i < half; ++i) {
                       out_low[i] = low[i] * cosine[i] - direction * high[i] * sine[i];
                       out_high[i] = high[i] * cosine[i] + direction * low[i] * sine[i];
                     }
                   }
                   store(call.outputs[0], t * width, width, y);
                 }
               });
             });
}

void run_forward(const OpCall& call, ThreadPool& pool) { rotate(call, pool, 1); }
void run_backward(const OpCall& call, ThreadPool& pool) { rotate(call, pool, -1); }

}  // namespace

const OpInfo rope_info = {OpKind::rope, "rope",    Lane::compute, "rotary position embedding",
                          check_rope,   cost_rope, run_forward};
const OpInfo rope_backward_info = {OpKind::rope_backward,
                                   "rope_backward",
                                   Lane::compute,
                                   "rotary position embedding, rotated back",
                                   check_rope,
                                   cost_rope,
                                   run_backward};

}  // namespace spillway
