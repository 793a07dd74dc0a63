// The planned peak of a point by what causes it (mechanisms.md 3.7), and how that differs between
// two variants of one point. Schedules and plans only: nothing runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sweeps/run.h"

namespace spillway {

struct MemoryCause {
  std::string name;
  int number = 0;                 // in the list of mechanisms.md 3.7; 0 where it names none
  int64_t base = 0, variant = 0;  // bytes at each one's own peak
  int64_t growth() const { return variant - base; }
};

// All causes in one fixed order, those that take no byte included. Exact: `base` sums to the
// planned peak of `base`, `variant` to that of `variant`, growth() to their difference.
//
// Bytes alive at the peak count for what they are: state, residuals, copy sets carried between
// iterations, staging of rotation copies, host copies within a body, gathered weights, gradients,
// other activations. What peeling adds (number 4) is the peak less the highest sum there would be
// without the peeled bodies' own tensors, so the others are read at that second place where both
// differ. Holes of packing are a cause of their own.
std::vector<MemoryCause> memory_growth(const Prepared& base, const Prepared& variant);

}  // namespace spillway
