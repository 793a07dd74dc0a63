// Expects a kernel to be as close to its op's definition as closeness.h says.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "tests/support/closeness.h"

namespace spillway {

inline void expect_close(const Values& got, const Values& want, DType dtype,
                         const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  const double largest = largest_of(want);
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], allowed_difference(want[i], largest, dtype))
        << what << " at element " << i;
}

}  // namespace spillway
