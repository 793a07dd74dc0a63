// Runs the simulated rows of a sweep under every alternative of its hypotheses and with every
// assumed constant of its machine at two other values, one at a time.
#pragma once

#include <vector>

#include "reports/sensitivity.h"
#include "sweeps/sweep_file.h"

namespace spillway {

// What the file's own simulated points do; points that it includes are left out. What the sweep
// calibrates is solved again for each variation. With several sweeps, each is also run with the
// figures fitted to the others. Uses all cores. Throws InputError for a sweep without simulated
// points, or with points on several machines.
std::vector<SweepSensitivity> sensitivity_of(const std::vector<Sweep>& sweeps);

// Two other values of an assumed figure, lower first; those that are no legal figure are drawn to 1,
// those that are the value itself are left out.
std::vector<double> other_values(const std::string& key, double value);

}  // namespace spillway
