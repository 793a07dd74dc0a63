// Solves the one fitted figure of a sweep.
#pragma once

#include "sweeps/run.h"
#include "sweeps/sweep_file.h"

namespace spillway {

// The matmul efficiency in (0, 1) with which the simulated point's TFLOPs/s/device equals
// `published`, by bisection to 1e-9 relative. Throws RunError when no efficiency in (0, 1) does:
// says what the ends give. Of `settings` all but the fitted figure counts.
Fitted fit_matmul_efficiency(const SweepPoint& point, double published,
                             const Settings& settings = {});

}  // namespace spillway
