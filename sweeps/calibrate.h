// Measures this machine into a machine file: ops at the sizes of workloads as a step meets them,
// copy lanes, and both at once. What the figures mean is harness/op_rates.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/machine.h"

namespace spillway {

struct CalibrateOptions {
  std::vector<std::string> models = {"llama3.1-405b-proxy", "deepseek-v3-proxy"};
  double seconds = 180;  // aimed at; everything is measured three times at least
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

// Throws InputError for an unknown model, RunError when a step fails.
Machine calibrate(const CalibrateOptions& options);

// The figures that the look-ups of ops without a rate fall back to, each with where it comes from.
std::map<std::string, Figure, std::less<>> figures_of(const Rates& rates);

// The machine file.
std::string machine_file_text(const Machine& machine);

}  // namespace spillway
