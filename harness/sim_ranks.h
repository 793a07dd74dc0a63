// Several devices that run one schedule and wait for each other at collectives. Private to the
// simulator.
#pragma once

#include "harness/sim_clock.h"

namespace spillway {

// exp of a normal number of standard deviation sigma and such a mean that the result has mean 1.
// The same for the same seed and count, on every machine with the same arithmetic.
double log_normal(double sigma, uint64_t seed, uint64_t count);

// One step of all ranks; ends when the last of them does.
Trace simulate_ranks(const SimProgram& program, const SimRanks& ranks);

}  // namespace spillway
