// rope: turns the last rope_dim columns of every head (all where rope_dim is 0), the pair (i, i +
// rope_dim / 2) by position * frequency i (Hugging Face's rotate_half); the columns before them are
// copied. interleaved: the pairs of x are (2i, 2i + 1), those of y still the two halves (its
// apply_rotary_pos_emb_interleave).
//   rope {x[T, heads * head_dim]} -> {y}; rope_backward is the transpose. Row t is at position t %
//   seq. y may be x.
// Attributes: heads, head_dim, seq, rope, rope_dim, interleaved.
#include "harness/ops/rope.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <numbers>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {

namespace {

// Wavelengths beyond the original context are stretched, short ones kept, those between blended
// (_compute_llama3_parameters).
double llama3_frequency(double plain, const Rope& rope) {
  const double original = static_cast<double>(rope.original_max_position);
  const double longest = original / rope.low_freq_factor,
               shortest = original / rope.high_freq_factor;
  const double wavelength = 2 * std::numbers::pi / plain;
  if (rope.factor == 1 || wavelength < shortest) return plain;
  if (wavelength > longest) return plain / rope.factor;
  const double smooth = (original / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * plain / rope.factor + smooth * plain;
}

// The pair (a real number) that turns `rotations` times over the original context.
double yarn_pair(double rotations, int64_t dim, const Rope& rope) {
  const double original = static_cast<double>(rope.original_max_position);
  return static_cast<double>(dim) * std::log(original / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

// Pairs that turn often are kept, slow ones stretched, with a linear ramp between
// (_compute_yarn_parameters).
double yarn_frequency(double plain, int64_t i, int64_t dim, const Rope& rope) {
  double low = yarn_pair(rope.beta_fast, dim, rope), high = yarn_pair(rope.beta_slow, dim, rope);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  return plain / rope.factor * ramp + plain * (1 - ramp);
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

}  // namespace

std::vector<float> rope_frequencies(int64_t dim, const Rope& rope) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < dim / 2; ++i) {
    const double plain =
        std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    double f = plain;
    if (rope.kind == RopeKind::llama3) f = llama3_frequency(plain, rope);
    if (rope.kind == RopeKind::yarn) f = yarn_frequency(plain, i, dim, rope);
    if (rope.kind == RopeKind::linear) f = plain / rope.factor;
    frequencies.push_back(static_cast<float>(f));
  }
  return frequencies;
}

double rope_attention_factor(const Rope& rope) {
  if (rope.kind != RopeKind::yarn) return 1;
  if (rope.attention_factor != 0) return rope.attention_factor;
  if (rope.mscale == 0 || rope.mscale_all_dim == 0) return yarn_mscale(rope.factor, 1);
  return yarn_mscale(rope.factor, rope.mscale) / yarn_mscale(rope.factor, rope.mscale_all_dim);
}

namespace {

std::string check_rope(const Program& program, const Op& op) {
  const Attributes& a = op.attributes;
  const Signature s = match(program, op, "x[T,W]:x -> y[T,W]:x");
  if (!s.error.empty()) return s.error;
  const std::string positive =
      require_positive({{"heads", a.heads}, {"head_dim", a.head_dim}, {"seq", a.seq}});
  if (!positive.empty()) return positive;
  if (a.rope_dim < 0 || a.rope_dim > a.head_dim)
    return text("attribute rope_dim is ", a.rope_dim, ", expected 0 to head_dim = ", a.head_dim);
  if (a.rope_dim % 2 != 0 || (a.rope_dim == 0 && a.head_dim % 2 != 0))
    return text("turns ", a.rope_dim == 0 ? a.head_dim : a.rope_dim,
                " columns of a head, expected an even number");
  if (s["W"] != a.heads * a.head_dim)
    return text("width is ", s["W"], ", expected heads * head_dim");
  if (s["T"] % a.seq != 0)
    return text("has ", s["T"], " rows, expected a multiple of seq = ", a.seq);
  return "";
}

OpCost cost_rope(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

// The angle is a fp32 product, as in transformers.
std::shared_ptr<const RopeTable> make_table(int64_t seq, int64_t dim, const Rope& rope) {
  auto table = std::make_shared<RopeTable>(RopeTable{seq, dim, rope, {}, {}});
  const std::vector<float> frequencies = rope_frequencies(dim, rope);
  const auto factor = static_cast<float>(rope_attention_factor(rope));
  for (int64_t position = 0; position < seq; ++position) {
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      table->cosine.push_back(std::cos(angle) * factor);
      table->sine.push_back(std::sin(angle) * factor);
    }
  }
  return table;
}

}  // namespace

std::shared_ptr<const RopeTable> rope_table(const Attributes& a) {
  static std::mutex mutex;
  static std::vector<std::shared_ptr<const RopeTable>> tables;
  const int64_t dim = a.rope_dim == 0 ? a.head_dim : a.rope_dim;
  const std::lock_guard lock(mutex);
  for (const auto& table : tables) {
    if (table->seq == a.seq && table->dim == dim && table->rope == a.rope) return table;
  }
  constexpr size_t kept = 4;  // a step needs one, a sweep a few
  if (tables.size() == kept) tables.erase(tables.begin());
  return tables.emplace_back(make_table(a.seq, dim, a.rope));
}

namespace {

// `direction` is 1 or -1. A head is loaded before it is stored: in place is fine.
void rotate(const OpCall& call, ThreadPool& pool, float direction) {
  const Attributes& a = call.op->attributes;
  const auto table = rope_table(a);
  const int64_t width = a.heads * a.head_dim, copied = a.head_dim - table->dim;
  const auto rows = [&](int64_t first, int64_t count) SPILLWAY_SIMD {
    float *x = row_scratch(0, width), *y = row_scratch(1, width), *pairs = row_scratch(2, width);
    for (int64_t t = first; t < first + count; ++t) {
      load(call.inputs[0], t * width, width, x);
      for (int64_t head = 0; head < width; head += a.head_dim) {
        std::copy_n(x + head, copied, y + head);
        turn(*table, t % a.seq, a.interleaved, direction, x + head + copied, pairs,
             y + head + copied);
      }
      store(call.outputs[0], t * width, width, y);
    }
  };
  for_blocks(
      pool, call.inputs[0].shape[0], rows_per_block(width),
      [&](int64_t first, int64_t count) { simd([&](auto) SPILLWAY_SIMD { rows(first, count); }); });
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
