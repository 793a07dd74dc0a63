// Device memory over a step as a simulation sees it: what is alive when.
#pragma once

#include <vector>

#include "harness/schedule.h"
#include "harness/trace.h"

namespace spillway {

struct LiveBytes {
  double seconds = 0;  // since the step began
  int64_t bytes = 0;   // of device tensors alive from here on
};
// The schedule's allocations and releases, iteration by iteration, at the times of a trace. A point wherever the sum changes. A tensor lives from its allocation to
// its release, a persistent one always; what has no place in the plan is not counted.
std::vector<LiveBytes> live_curve(const Schedule& schedule, const Trace& trace);

}  // namespace spillway
