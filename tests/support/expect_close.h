// How close a kernel must come to its op's definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/op_case.h"

namespace spillway {

// fp32 arithmetic in any order: 2e-5 of the largest value, 1e-6 where values cancel (inputs are of
// order one), and what rounding to bf16 adds.
inline void expect_close(const Values& got, const Values& want, DType dtype,
                         const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = 0;
  for (const double x : want)
    largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < got.size(); ++i) {
    const double rounding = dtype == DType::bf16 ? std::abs(want[i]) / 256 : 0;
    ASSERT_NEAR(got[i], want[i], rounding + 1e-6 + 2e-5 * largest) << what << " at element " << i;
  }
}

}  // namespace spillway
