// Numbers inside kernels: bf16 <-> fp32, loads and stores of either, a vectorisable exp, sums in a
// fixed order. Everything here is inlined into a simd() body.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "harness/ops.h"
#include "harness/ops/simd.h"

namespace spillway {

struct Bf16 {
  uint16_t bits;
};

SPILLWAY_INLINE float to_float(float x) { return x; }
SPILLWAY_INLINE float to_float(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

// Round to nearest, ties to even; a NaN stays a (quiet) NaN.
SPILLWAY_INLINE Bf16 to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40u;
  return {static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
}

// out[i] = data[first + i], for f32 and bf16.
SPILLWAY_INLINE void load(const void* data, DType dtype, int64_t first, int64_t n,
                          float* __restrict out) {
  if (dtype == DType::f32) {
    std::memcpy(out, static_cast<const float*>(data) + first,
                static_cast<size_t>(n) * sizeof(float));
  } else {
    const Bf16* in = static_cast<const Bf16*>(data) + first;
    for (int64_t i = 0; i < n; ++i)
      out[i] = to_float(in[i]);
  }
}
SPILLWAY_INLINE void load(const Buffer& buffer, int64_t first, int64_t n, float* __restrict out) {
  load(buffer.data, buffer.dtype, first, n, out);
}

SPILLWAY_INLINE void store(void* data, DType dtype, int64_t first, int64_t n,
                           const float* __restrict in) {
  if (dtype == DType::f32) {
    std::memcpy(static_cast<float*>(data) + first, in, static_cast<size_t>(n) * sizeof(float));
  } else {
    Bf16* out = static_cast<Bf16*>(data) + first;
    for (int64_t i = 0; i < n; ++i)
      out[i] = to_bf16(in[i]);
  }
}
SPILLWAY_INLINE void store(const Buffer& buffer, int64_t first, int64_t n,
                           const float* __restrict in) {
  store(buffer.data, buffer.dtype, first, n, in);
}

// e^x with a relative error below 2e-7; 0 below -87.3 (where fp32 would turn denormal), the largest
// power above 88.3. x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor series to r^7 (remainder
// 5e-9), Horner's scheme.
SPILLWAY_INLINE float exp_fast(float x) {
  constexpr float low = -87.3f, high = 88.3f,
                  to_integer = 12582912.f;  // 1.5 * 2^23: adding it rounds to integer
  constexpr float ln2_high = 0.693359375f,
                  ln2_low = -2.12194440e-4f;  // their sum is ln 2; the first has 9 bits
  const float clamped = x < low ? low : (x > high ? high : x);  // a NaN passes
  const float shifted = clamped * 1.44269504f + to_integer;
  const float n = shifted - to_integer;
  const float r = (clamped - n * ln2_high) - n * ln2_low;
  float p = 1.f / 5040;
  p = p * r + 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127u)
                            << 23;  // low bits of `shifted` are n
  const float result = p * std::bit_cast<float>(exponent);
  return x < low ? 0.f : result;
}

SPILLWAY_INLINE float sigmoid(float x) { return 1.f / (1.f + exp_fast(-x)); }

// Sixteen running values and then pairs of them: an order that depends on n alone. `combine` takes
// and returns a vector's worth (V) or a single float.
inline constexpr int running = 16;
template <class I, class Combine>
SPILLWAY_INLINE float reduce(int64_t n, float start, const Combine& combine, I) {
  using V = Vector<I>;
  constexpr int registers = running / I::lanes;
  V parts[registers];
  for (V& part : parts)
    part = V{} + start;
  int64_t i = 0;
  for (; i + running <= n; i += running) {
    for (int r = 0; r < registers; ++r)
      combine(parts[r], i + r * I::lanes);
  }
  float lane[running];
  std::memcpy(lane, parts, sizeof lane);
  for (int j = 0; i < n; ++i, ++j)
    combine(lane[j], i);
  for (int half = running / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j)
      combine.join(lane[j], lane[j + half]);
  }
  return lane[0];
}

template <class T>
SPILLWAY_INLINE const T& at(const float* x, int64_t i) {
  return *reinterpret_cast<const T*>(x + i);
}

struct Dot {
  const float *x, *y;
  template <class T>
  SPILLWAY_INLINE void operator()(T& sum, int64_t i) const {
    sum += at<T>(x, i) * at<T>(y, i);
  }
  SPILLWAY_INLINE void join(float& sum, float other) const { sum += other; }
};
struct Sum {
  const float* x;
  template <class T>
  SPILLWAY_INLINE void operator()(T& sum, int64_t i) const {
    sum += at<T>(x, i);
  }
  SPILLWAY_INLINE void join(float& sum, float other) const { sum += other; }
};
struct Maximum {
  const float* x;
  template <class T>
  SPILLWAY_INLINE void operator()(T& most, int64_t i) const {
    most = at<T>(x, i) > most ? at<T>(x, i) : most;
  }
  SPILLWAY_INLINE void join(float& most, float other) const { most = other > most ? other : most; }
};

// sum of x[i] y[i]; sum of x[i]; the largest x[i] and `start` (a NaN is passed over).
template <class I>
SPILLWAY_INLINE float dot(int64_t n, const float* x, const float* y, I isa) {
  return reduce(n, 0.f, Dot{x, y}, isa);
}
template <class I>
SPILLWAY_INLINE float sum(int64_t n, const float* x, I isa) {
  return reduce(n, 0.f, Sum{x}, isa);
}
template <class I>
SPILLWAY_INLINE float maximum(int64_t n, const float* x, float start, I isa) {
  return reduce(n, start, Maximum{x}, isa);
}

}  // namespace spillway
