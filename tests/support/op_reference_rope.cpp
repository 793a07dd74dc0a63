// Rotary embedding in double precision, and the keys and values of latent attention that use it.
#include <cmath>
#include <numbers>

#include "tests/support/op_reference.h"

namespace spillway {
namespace {

// YaRN (Peng et al., arXiv:2309.00071, section 3.2) with transformers' bounds: pairs that turn more
// than beta_fast times over the original context keep their frequency, those under beta_slow times
// are stretched by `factor`.
double yarn(const Rope& rope, double plain, double pair, double dim) {
  const auto pair_of = [&](double turns) {
    const double wavelength = static_cast<double>(rope.original_max_position) / turns;
    return dim / 2 * std::log(wavelength / (2 * std::numbers::pi)) / std::log(rope.theta);
  };
  double first = pair_of(rope.beta_fast), last = pair_of(rope.beta_slow);
  if (rope.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::fmax(first, 0);
  last = std::fmin(last, dim - 1);
  const double stretched = std::fmin(std::fmax((pair - first) / (last - first), 0), 1);
  return plain * (1 - stretched) + plain / rope.factor * stretched;
}

double frequency(const Rope& rope, int64_t pair, int64_t dim) {
  const double i = static_cast<double>(pair), d = static_cast<double>(dim);
  const double plain = 1 / std::pow(rope.theta, 2 * i / d);
  if (rope.kind == RopeKind::yarn) return yarn(rope, plain, i, d);
  return rope.kind == RopeKind::linear ? plain / rope.factor : plain;
}

// Both get_mscale values where the config has both, else that of factor alone.
double length_of(const Rope& rope) {
  if (rope.kind != RopeKind::yarn) return 1;
  if (rope.attention_factor != 0) return rope.attention_factor;
  const double log = std::log(rope.factor) / 10;
  if (rope.mscale == 0 || rope.mscale_all_dim == 0) return log + 1;
  return (rope.mscale * log + 1) / (rope.mscale_all_dim * log + 1);
}

// Turns x[from .. from + dim) into y[to ..), forward or transposed.
void turn_one(const Attributes& a, int64_t dim, int64_t position, bool backward, const Values& x,
              int64_t from, Values& y, int64_t to) {
  const int64_t half = dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * frequency(a.rope, i, dim);
    const double c = std::cos(angle) * length_of(a.rope), s = std::sin(angle) * length_of(a.rope);
    const int64_t first = a.interleaved ? 2 * i : i, second = a.interleaved ? 2 * i + 1 : half + i;
    if (backward) {
      at(y, to + first) = at(x, from + i) * c + at(x, from + half + i) * s;
      at(y, to + second) = at(x, from + half + i) * c - at(x, from + i) * s;
    } else {
      at(y, to + i) = at(x, from + first) * c - at(x, from + second) * s;
      at(y, to + half + i) = at(x, from + second) * c + at(x, from + first) * s;
    }
  }
}

void rope(const OpCase& c, const Values& x, Values& y) {
  const Attributes& a = c.attributes;
  const int64_t dim = a.rope_dim == 0 ? a.head_dim : a.rope_dim, kept = a.head_dim - dim;
  for (int64_t row = 0; row < c.inputs[0].shape[0]; ++row) {
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t base = (row * a.heads + h) * a.head_dim;
      for (int64_t d = 0; d < kept; ++d)
        at(y, base + d) = at(x, base + d);
      turn_one(a, dim, row % a.seq, c.kind == OpKind::rope_backward, x, base + kept, y,
               base + kept);
    }
  }
}

void mla_key_value(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const Attributes& a = c.attributes;
  const int64_t r = a.rope_dim, n = a.head_dim - r, v = a.value_dim, latent = c.inputs[1].shape[1];
  for (int64_t t = 0; t < c.inputs[0].shape[0]; ++t) {
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t head = t * a.heads + h;
      for (int64_t d = 0; d < n; ++d)
        at(out[0], head * (n + r) + d) = at(in[0], head * (n + v) + d);
      for (int64_t d = 0; d < v; ++d)
        at(out[1], head * v + d) = at(in[0], head * (n + v) + n + d);
      turn_one(a, r, t % a.seq, false, in[1], t * latent + latent - r, out[0], head * (n + r) + n);
    }
  }
}

void mla_backward(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const Attributes& a = c.attributes;
  const int64_t r = a.rope_dim, n = a.head_dim - r, v = a.value_dim;
  for (int64_t t = 0; t < c.inputs[0].shape[0]; ++t) {
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t head = t * a.heads + h;
      for (int64_t d = 0; d < n; ++d)
        at(out[0], head * (n + v) + d) = at(in[0], head * (n + r) + d);
      for (int64_t d = 0; d < v; ++d)
        at(out[0], head * (n + v) + n + d) = at(in[1], head * v + d);
      Values turned(static_cast<size_t>(r));
      turn_one(a, r, t % a.seq, true, in[0], head * (n + r) + n, turned, 0);
      for (int64_t d = 0; d < r; ++d)
        at(out[1], t * r + d) += at(turned, d);
    }
  }
}

}  // namespace

bool rope_reference(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  switch (c.kind) {
    case OpKind::rope:
    case OpKind::rope_backward:
      rope(c, in[0], out[0]);
      return true;
    case OpKind::mla_key_value:
      mla_key_value(c, in, out);
      return true;
    case OpKind::mla_key_value_backward:
      mla_backward(c, in, out);
      return true;
    default:
      return false;
  }
}

}  // namespace spillway
