// Tiny models as a subject runs them, and what a run shows to whoever compares it with another.
#pragma once

#include <string>
#include <vector>

#include "sweeps/run.h"
#include "tests/gpu/part.h"
#include "tests/support/wait_places.h"

namespace spillway {

// A point's schedule with the scratch memory of the subject's kernels, planned and proven anew.
struct SubjectPoint {
  SubjectPoint(const Subject& subject, const Point& point);  // a point of the CPU executor
  Schedule schedule;
  Plan plan;
};

struct Shown {
  std::vector<double> losses;
  std::string digest;
  int64_t stale_slots = 0;
  std::string error;
  friend bool operator==(const Shown&, const Shown&) = default;
};
std::string text_of(const Shown& shown);

Shown show(ValueExecutor& executor, int64_t steps);
// `schedule` is the point's, or one with a wait less.
Shown show(const Subject& subject, const SubjectPoint& point, const Schedule& schedule,
           CudaOptions options, int64_t steps);

}  // namespace spillway
