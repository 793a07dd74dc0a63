// Full-size layers on one GPU: which points fit, and their runs.
#pragma once

#include <string>

#include "sweeps/run.h"
#include "tests/gpu/part.h"

namespace spillway {

struct LayerModel {
  std::string model;    // shipped name, or a config file
  std::string offload;  // policy
  int64_t first = 1;    // layers of the least run
  int64_t most = 8;     // layers
};

// A point of the CUDA executor: 2-byte weights and state, LHS on, the largest power of two of tokens
// up to 8192 with steps of at most `seconds`, as many layers as fit under both policies.
Point fitting_point(const Subject& subject, const LayerModel& model, double seconds);

struct LayerRun {
  Prepared prepared;
  Outcome outcome;
  nlohmann::json result;
  double step_seconds() const { return result["step_seconds"]["median"]; }
};
LayerRun run_layers(const Subject& subject, const Point& point);

// Seconds of a step of the same point on the machine file that comes nearest to this GPU.
double predicted_seconds(const Subject& subject, Point point);

// Rates of every kind of op in a run beside what the device can do alone; fails `finding` where
// matmuls are below 95 % of their own rate alone or passes over much memory below 85 % of a copy.
nlohmann::json rates_of(const Subject& subject, const LayerRun& run, const Effort& effort,
                        Finding& finding);

}  // namespace spillway
