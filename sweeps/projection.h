// The step of a whole model out of one with fewer layers (--layers): what a layer takes, as often as
// the model has it; optimizer and the like by their bytes; collectives, where the step ran on one
// device and the point names more, by the simulator. A projection, and called so everywhere.
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/run.h"

namespace spillway {

// Whether this point runs fewer layers than its model has.
bool runs_part_of_model(const Point& point);

// The devices whose work one process runs: all in a simulation, one in an execution.
int64_t devices_in_run(const Point& point);

// Null where all layers ran. Otherwise {"kind": "projected", "layers", "of_layers" (that ran),
// "devices", "step_seconds", "tflops_per_s_per_device", "tokens_per_s_per_device", "peak_hbm_bytes"
// (of the whole model's plan), "segments": [{"segment", "iterations", "of_iterations",
// "seconds_per_iteration", "seconds"}], "modelled": {"op_seconds", "collective_seconds" (exposed)}
// or null, "machine"}; where it cannot be told, "step_seconds" null and a "reason": a loop that did
// not run twice, or steps whose ops were not timed. Median over the traces.
nlohmann::json projection_of(const Prepared& prepared, const std::vector<Trace>& traces,
                             const Settings& settings);

}  // namespace spillway
