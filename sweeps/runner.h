// Runs a sweep into a store: simulated points at once, executed points in turns.
#pragma once

#include <functional>
#include <string>

#include "sweeps/store.h"
#include "sweeps/sweep_file.h"

namespace spillway {

// Called before each piece of work: done and total pieces, what comes next, seconds left (negative
// when not known yet).
using Progress =
    std::function<void(int64_t done, int64_t total, const std::string& next, double seconds_left)>;

// Executed points take turns in seeded random order, so that drift of the machine favours none: a
// visit is a fresh start at step 0 on shared arenas and `steps_per_visit` timed steps; the first
// visit of a point has its warm-up too. All points get the same number of visits; rounds end when
// every point has its steps, or when the next round would pass the sweep's time budget. With a
// budget too small for one round of whole visits, the warm-up is left out (`warmup` in the row's
// config then says 0), and then all timed steps but one. Values of executed points that must agree
// (same model, shape, seed, precision) are compared: loss and gradient digest to the last bit; a
// row that was compared is `checked`, one that disagrees has failed. Whatever a point throws
// becomes a row `failed: reason`; the sweep goes on. Continues what the store holds. Returns the
// number of failed points.
//
// Neighbouring simulated points run on `jobs` threads (0: all usable cores); their results do not
// depend on it and are stored in the order of the sweep. Executed points run alone.
int64_t run_sweep(const Sweep& sweep, Store& store, const Progress& progress, int jobs = 0);

}  // namespace spillway
