// How close a kernel must come to its op's definition.
#pragma once

#include <algorithm>
#include <cmath>

#include "tests/support/op_case.h"

namespace spillway {

inline double largest_of(const Values& values) {
  double largest = 0;
  for (const double x : values)
    largest = std::max(largest, std::abs(x));
  return largest;
}

// fp32 arithmetic in any order: 2e-5 of the largest value, 1e-6 where values cancel (inputs are of
// order one), and what rounding to the output's format adds: half a step of codes, relative and of
// the smallest ones; under block scales half of the largest step (1 of 6) of a block that may have
// the largest value, and what E4M3 rounds from its scale.
inline double allowed_difference(double want, double largest, DType dtype) {
  double rounding = 0;
  if (dtype == DType::bf16) rounding = std::abs(want) / 256;
  if (dtype == DType::e4m3) rounding = std::abs(want) / 16 + largest / 448 / 1024;
  if (dtype == DType::e5m2) rounding = std::abs(want) / 8 + largest / 57344 / 131072;
  if (dtype == DType::nvfp4 || dtype == DType::nvfp4_rows)
    rounding = largest / 6 * (1 + 1.0 / 16);
  return rounding + 1e-6 + 2e-5 * largest;
}

}  // namespace spillway
