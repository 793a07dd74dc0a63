// Rotary embedding: the table of angles that rope and mla_key_value turn by.
#pragma once

#include <memory>
#include <vector>

#include "harness/ops/rope_frequencies.h"
#include "harness/ops/simd.h"
#include "harness/program.h"

namespace spillway {

// cos and sin of position * frequency, [seq, dim / 2] each, times the attention factor.
struct RopeTable {
  int64_t seq, dim;
  Rope rope;
  std::vector<float> cosine, sine;
};
// Of the columns that turn: rope_dim, or head_dim where that is 0. The tables used last are kept.
std::shared_ptr<const RopeTable> rope_table(const Attributes& attributes);

// Turns the columns of one head at one position: out[dim] from x[dim], which it must not be.
// direction 1 forward; -1 its transpose. pairs: room for dim floats.
SPILLWAY_INLINE void turn(const RopeTable& table, int64_t position, bool interleaved,
                          float direction, const float* x, float* pairs, float* out) {
  const int64_t half = table.dim / 2;
  const float *cosine = table.cosine.data() + position * half,
              *sine = table.sine.data() + position * half;
  const bool split = interleaved && direction > 0, weave = interleaved && direction < 0;
  for (int64_t i = 0; split && i < half; ++i) {
    pairs[i] = x[2 * i];
    pairs[half + i] = x[2 * i + 1];
  }
  const float *low = split ? pairs : x, *high = low + half;
  float* __restrict out_low = weave ? pairs : out;
  float* __restrict out_high = out_low + half;
  for (int64_t i = 0; i < half; ++i) {
    out_low[i] = low[i] * cosine[i] - direction * high[i] * sine[i];
    out_high[i] = high[i] * cosine[i] + direction * low[i] * sine[i];
  }
  for (int64_t i = 0; weave && i < half; ++i) {
    out[2 * i] = pairs[i];
    out[2 * i + 1] = pairs[half + i];
  }
}

}  // namespace spillway
