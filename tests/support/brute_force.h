// The race check once more, as plainly as it can be put: every iteration unrolled, an explicit
// graph, all pairs of accesses. Shares no code with harness/race.cpp. For tiny programs.
#pragma once

#include <string>

#include "harness/plan.h"
#include "harness/schedule.h"

namespace spillway {

// What is wrong, or nothing.
std::string brute_force_race(const Schedule& schedule, const Plan& plan);

}  // namespace spillway
