// Whether executed points that must compute the same values did.
#pragma once

#include <string>

#include "sweeps/store.h"
#include "sweeps/sweep_file.h"

namespace spillway {

struct Agreement {
  bool compared = false;  // another point's values were there to compare with
  std::string mismatch;   // what differs from whom; empty when all agree
};

// Compares the visits of a point with each other and with those of every other executed point of
// the sweep that has the same model, layers, shape, seed, precision and state bytes: losses step by
// step and, after the same number of steps, the gradient digest; to the last bit.
Agreement agreement_of(const SweepPoint& point, const Sweep& sweep, const Store& store);

}  // namespace spillway
