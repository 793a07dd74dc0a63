// Numbers of four and eight bits and their layout on the device: as harness/ops/small_float.h and
// harness/narrow.h, which are the definition. The hardware converts where there is any.
#pragma once

#include "harness/cuda/ops/values.cuh"
#include "harness/narrow.h"
#include "harness/ops/small_float.h"

#ifdef __CUDACC__
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#endif

namespace spillway {

// Largest finite values, as in small_float.h.
inline constexpr float largest_e4m3 = 448.f, largest_e5m2 = 57344.f, largest_e2m1 = 6.f;

// A copy of a format's parameters that device code may read.
struct DeviceFloat {
  int mantissa_bits, bias;
  uint32_t sign, largest, nan;
};
SPILLWAY_DEVICE inline DeviceFloat device_float(DType dtype) {
  if (dtype == DType::e4m3) return {3, 7, 0x80, 0x7e, 0x7f};
  if (dtype == DType::e5m2) return {2, 15, 0x80, 0x7b, 0x7e};
  return {1, 1, 0x8, 0x7, 0x7};  // nvfp4 codes
}

SPILLWAY_DEVICE inline float decode_narrow(const DeviceFloat& format, uint32_t code) {
  const uint32_t size = code & (format.sign - 1), field = size >> format.mantissa_bits;
  const uint32_t mantissa = size & ((1u << format.mantissa_bits) - 1);
  if (format.largest != format.nan && size > format.largest) return float_of_bits(0x7fc00000u);
  const uint32_t whole = field == 0 ? mantissa : mantissa + (1u << format.mantissa_bits);
  const int exponent =
      (field == 0 ? 1 : static_cast<int>(field)) - format.bias - format.mantissa_bits;
  const float value =
      static_cast<float>(whole) * float_of_bits(static_cast<uint32_t>(127 + exponent) << 23);
  return (code & format.sign) != 0 ? -value : value;
}

// Codes of two values, `low` in the lower half of the bits; to the nearest, ties to even, what is
// too large to the largest finite one.
#ifdef __CUDA_ARCH__
SPILLWAY_DEVICE inline uint32_t encode_pair(DType dtype, float low, float high) {
  const float2 pair = make_float2(low, high);
  if (dtype == DType::e4m3) return __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3);
  if (dtype == DType::e5m2) return __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E5M2);
  return __nv_cvt_float2_to_fp4x2(pair, __NV_E2M1, cudaRoundNearest);
}
#else
inline uint32_t encode_pair(DType dtype, float low, float high) {
  const SmallFloat format = dtype == DType::e4m3   ? float_e4m3
                            : dtype == DType::e5m2 ? float_e5m2
                                                   : float_e2m1;
  const int bits = is_fp8(dtype) ? 8 : 4;
  return encode(format, low) | encode(format, high) << bits;
}
#endif

// The parts of a NarrowLayout that kernels need, by value.
struct NarrowPlaces {
  int64_t matrices, rows, columns, pitch, scale_rows, scale_columns, code_bytes, scales_at,
      scale_at;

  explicit NarrowPlaces(const NarrowLayout& from)
      : matrices(from.matrices),
        rows(from.rows),
        columns(from.columns),
        pitch(from.pitch),
        scale_rows(from.scale_rows),
        scale_columns(from.scale_columns),
        code_bytes(from.code_bytes),
        scales_at(from.scales_at),
        scale_at(from.scale_at) {}

  // As block_scale_at(), from the first byte of the tensor.
  SPILLWAY_DEVICE int64_t block_scale(int64_t matrix, int64_t row, int64_t block) const {
    const int64_t tile = (row >> 7) * (scale_columns >> 2) + (block >> 2), in_tile = row & 127;
    return scales_at + matrix * scale_rows * scale_columns + tile * 512 + (in_tile & 31) * 16 +
           (in_tile >> 5) * 4 + (block & 3);
  }
};

}  // namespace spillway
