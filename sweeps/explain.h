// Why variant B of a point takes longer than variant A, or less: both are simulated and taken
// apart.
#pragma once

#include <optional>
#include <string>

#include "reports/explanation.h"
#include "sweeps/run.h"

namespace spillway {

// A variant to be explained.
struct ExplainedPoint {
  std::string label;
  Point point;
  std::string published;         // id of the published result it is set beside, or empty
  std::optional<Fitted> fitted;  // of its sweep
};

// Points that do not fit are simulated too: their status says so. Throws InputError, naming the
// field, when one is not a simulation or the two differ in model, layers, micro batch or sequence.
Explanation explain(const ExplainedPoint& a, const ExplainedPoint& b);

}  // namespace spillway
