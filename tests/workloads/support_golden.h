// What the tests against golden values share.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/golden.h"
#include "workloads/workload.h"

namespace spillway {

// ||a - b|| / ||b||
inline double normalised_error(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    size += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / size);
}

// The point that make_golden.py ran.
inline WorkloadOptions options_of(const Golden& golden, Precision precision) {
  WorkloadOptions options;
  options.micro_batch = golden.batch();
  options.seq = golden.seq();
  options.precision = precision;
  options.adamw = {1e-3, 0.9, 0.95, 1e-8, 0.1};
  return options;
}

}  // namespace spillway
