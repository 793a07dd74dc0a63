// Numbers inside CUDA kernels: operands as views, packs of eight values by 16-byte accesses, and
// the few functions that the device has of its own. Without nvcc it is plain C++: kernel bodies are
// then run and compared by tests, on machines without a GPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "harness/ops.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#define SPILLWAY_DEVICE __device__
#define SPILLWAY_UNROLL _Pragma("unroll")
#else
#define SPILLWAY_DEVICE
#define SPILLWAY_UNROLL
#endif

namespace spillway {

// What one thread loads or stores at a time: 16 bytes of bf16, twice that of fp32.
inline constexpr int pack_width = 8;
using Pack = float[pack_width];

// An operand of floats. `aligned`: a whole pack that begins at a multiple of eight elements is one
// or two 16-byte accesses.
struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  bool aligned = false;
};

// Every one of `steps`, the distances at which packs begin besides multiples of eight, must be a
// multiple of eight for the view to be aligned.
inline View view_of(const Buffer& buffer, std::initializer_list<int64_t> steps = {}) {
  bool aligned = reinterpret_cast<uintptr_t>(buffer.data) % 16 == 0;
  for (const int64_t step : steps)
    aligned = aligned && step % pack_width == 0;
  return {buffer.data, buffer.dtype, aligned};
}

SPILLWAY_DEVICE inline float float_of_bits(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
#endif
}
SPILLWAY_DEVICE inline uint32_t bits_of_float(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(x);
#else
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}

// Round to nearest, ties to even; a NaN stays one.
SPILLWAY_DEVICE inline uint32_t bf16_bits(float x) {
#ifdef __CUDA_ARCH__
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
#else
  const uint32_t bits = bits_of_float(x);
  if (x != x) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
#endif
}
// Two of them in one word, `low` in the lower half.
SPILLWAY_DEVICE inline uint32_t bf16_pair(float low, float high) {
#ifdef __CUDA_ARCH__
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return __bfloat16_as_ushort(pair.x) | (static_cast<uint32_t>(__bfloat16_as_ushort(pair.y)) << 16);
#else
  return bf16_bits(low) | (bf16_bits(high) << 16);
#endif
}

// One 16-byte access.
struct alignas(16) Words {
  uint32_t word[4];
};
SPILLWAY_DEVICE inline Words load_words(const void* from) {
#ifdef __CUDA_ARCH__
  const uint4 x = *static_cast<const uint4*>(from);
  return {{x.x, x.y, x.z, x.w}};
#else
  Words words;
  std::memcpy(&words, from, sizeof words);
  return words;
#endif
}
SPILLWAY_DEVICE inline void store_words(void* to, const Words& words) {
#ifdef __CUDA_ARCH__
  *static_cast<uint4*>(to) = make_uint4(words.word[0], words.word[1], words.word[2], words.word[3]);
#else
  std::memcpy(to, &words, sizeof words);
#endif
}

// One 4-byte access.
SPILLWAY_DEVICE inline void store_word(void* to, uint32_t word) {
#ifdef __CUDA_ARCH__
  *static_cast<uint32_t*>(to) = word;
#else
  std::memcpy(to, &word, sizeof word);
#endif
}

SPILLWAY_DEVICE inline float load_one(const View& view, int64_t i) {
  if (view.dtype == DType::f32) return static_cast<const float*>(view.data)[i];
  return float_of_bits(static_cast<uint32_t>(static_cast<const uint16_t*>(view.data)[i]) << 16);
}
SPILLWAY_DEVICE inline void store_one(const View& view, int64_t i, float x) {
  if (view.dtype == DType::f32) {
    static_cast<float*>(view.data)[i] = x;
  } else {
    static_cast<uint16_t*>(view.data)[i] = static_cast<uint16_t>(bf16_bits(x));
  }
}

// x = elements first .. first + count - 1, zero beyond; count may exceed the pack.
SPILLWAY_DEVICE inline void load_pack(const View& view, int64_t first, int64_t count, Pack& x) {
  if (!view.aligned || count < pack_width) {
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i)
      x[i] = i < count ? load_one(view, first + i) : 0.f;
  } else if (view.dtype == DType::f32) {
    const float* from = static_cast<const float*>(view.data) + first;
    const Words low = load_words(from), high = load_words(from + 4);
    SPILLWAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      x[i] = float_of_bits(low.word[i]);
      x[4 + i] = float_of_bits(high.word[i]);
    }
  } else {
    const Words words = load_words(static_cast<const uint16_t*>(view.data) + first);
    SPILLWAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = float_of_bits(words.word[i] << 16);
      x[2 * i + 1] = float_of_bits(words.word[i] & 0xffff0000u);
    }
  }
}

SPILLWAY_DEVICE inline void store_pack(const View& view, int64_t first, int64_t count,
                                       const Pack& x) {
  if (!view.aligned || count < pack_width) {
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i)
      if (i < count) store_one(view, first + i, x[i]);
  } else if (view.dtype == DType::f32) {
    float* to = static_cast<float*>(view.data) + first;
    Words low, high;
    SPILLWAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      low.word[i] = bits_of_float(x[i]);
      high.word[i] = bits_of_float(x[4 + i]);
    }
    store_words(to, low);
    store_words(to + 4, high);
  } else {
    Words words;
    SPILLWAY_UNROLL
    for (int i = 0; i < 4; ++i)
      words.word[i] = bf16_pair(x[2 * i], x[2 * i + 1]);
    store_words(static_cast<uint16_t*>(view.data) + first, words);
  }
}

// 1 / x, off by at most two in the last place; 0 beyond 2^126.
SPILLWAY_DEVICE inline float reciprocal(float x) {
#ifdef __CUDA_ARCH__
  return __fdividef(1.f, x);
#else
  return 1.f / x;
#endif
}
SPILLWAY_DEVICE inline float logistic(float x) { return reciprocal(1.f + expf(-x)); }

// a b rounded by itself, never fused with an addition that follows.
SPILLWAY_DEVICE inline double product_apart(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

inline constexpr int64_t parts_of(int64_t size, int64_t part) { return (size + part - 1) / part; }

}  // namespace spillway
