// Numbers of four and eight bits: to and from their codes. Rounding is to the nearest, ties to even;
// what is too large becomes the largest finite value, as conversions with saturation do.
#pragma once

#include <bit>
#include <cstdint>

#include "harness/ops/simd.h"

namespace spillway {

// OCP 8-bit Floating Point Specification v1.0 (E4M3, E5M2), OCP Microscaling Formats v1.0 (E2M1).
struct SmallFloat {
  int mantissa_bits, bias;
  uint32_t sign;     // the bit
  uint32_t largest;  // code of the largest finite value
  uint32_t nan;      // code of a NaN; formats without one take the largest
};
inline constexpr SmallFloat float_e4m3 = {3, 7, 0x80, 0x7e, 0x7f};   // 448
inline constexpr SmallFloat float_e5m2 = {2, 15, 0x80, 0x7b, 0x7e};  // 57344
inline constexpr SmallFloat float_e2m1 = {1, 1, 0x8, 0x7, 0x7};      // 6

SPILLWAY_INLINE float decode(const SmallFloat& format, uint32_t code) {
  const uint32_t size = code & (format.sign - 1), field = size >> format.mantissa_bits;
  const uint32_t mantissa = size & ((1u << format.mantissa_bits) - 1);
  const bool special = format.largest != format.nan && size > format.largest;
  if (special) return std::bit_cast<float>(0x7fc00000u);  // E5M2's infinity is never made here
  // 2^(e - bias - mantissa bits) x (mantissa with its leading one, which the smallest lack)
  const uint32_t whole = field == 0 ? mantissa : mantissa + (1u << format.mantissa_bits);
  const int exponent =
      (field == 0 ? 1 : static_cast<int>(field)) - format.bias - format.mantissa_bits;
  const float value =
      static_cast<float>(whole) * std::bit_cast<float>(static_cast<uint32_t>(127 + exponent) << 23);
  return code & format.sign ? -value : value;
}

SPILLWAY_INLINE uint32_t encode(const SmallFloat& format, float x) {
  constexpr float to_integer =
      12582912.f;  // 1.5 * 2^23: adding it rounds to an integer, ties to even
  const uint32_t bits = std::bit_cast<uint32_t>(x), size = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 31 ? format.sign : 0;
  if (size > 0x7f800000u) return sign | format.nan;
  // Exponent, that of the smallest normal value for what is below it.
  const int smallest = 1 - format.bias, own = static_cast<int>(size >> 23) - 127;
  const int exponent = own < smallest ? smallest : own;
  const float largest = decode(format, format.largest), magnitude = std::bit_cast<float>(size);
  if (magnitude >= largest) return sign | format.largest;
  const int shift = format.mantissa_bits - exponent;
  const float scaled = magnitude * std::bit_cast<float>(static_cast<uint32_t>(127 + shift) << 23);
  const float rounded = (scaled + to_integer) - to_integer;
  // A leading one carries into the exponent by itself; so does a mantissa that rounds up to two.
  const uint32_t code = static_cast<uint32_t>(static_cast<int32_t>(rounded)) +
                        (static_cast<uint32_t>(exponent - smallest) << format.mantissa_bits);
  return sign | (code < format.largest ? code : format.largest);
}

}  // namespace spillway
