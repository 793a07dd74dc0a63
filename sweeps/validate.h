// Runs points for real and simulates the very same schedules on a calibrated machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sweeps/store.h"
#include "sweeps/validate_judge.h"

namespace spillway {

struct ValidateOptions {
  std::string machine;  // file of `calibrate`
  std::vector<std::string> models = {"llama3.1-405b-proxy", "deepseek-v3-proxy"};
  double seconds = 900;  // aimed at; every point runs three timed steps at least
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

// Each point is visited twice, all points in turn, so that both visits meet different moments of
// the machine. What a visit measured is in the store when it ends; one that the store holds for the
// same point and machine file is not run again. Throws InputError for a machine without rates,
// RunError when a point does not fit or fails.
std::vector<ValidateRecord> validate(const ValidateOptions& options, Store& store);

}  // namespace spillway
