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
// order one), and what rounding to bf16 adds.
inline double allowed_difference(double want, double largest, DType dtype) {
  const double rounding = dtype == DType::bf16 ? std::abs(want) / 256 : 0;
  return rounding + 1e-6 + 2e-5 * largest;
}

}  // namespace spillway
