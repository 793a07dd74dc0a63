// Laws that hold for every simulated step, whatever the schedule and the machine. Each function
// returns the largest deviation it found, for a test to judge and the acceptance run to print.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "harness/executor.h"

namespace spillway {

// The rates of a machine by what a user would make faster.
std::vector<std::string> link_rates();
std::vector<std::string> fabric_rates();
std::vector<std::string> compute_rates();
std::vector<std::string> all_rates();
// A machine without what takes a fixed time; its rates times a factor (those it has).
Machine without_latencies(Machine machine);
Machine faster(Machine machine, const std::vector<std::string>& rates, double factor);

// Bytes moved less trips times bytes of every copy and collective, largest of the lanes.
int64_t unplanned_bytes(const Schedule& schedule, const Trace& trace);
// Of the step: overlap of spans on one lane, or what reaches out of the step, plus what busy, waiting
// and the gaps between spans miss of it; largest of the lanes.
double unaccounted(const Trace& trace);
// Highest use of any resource at any time, 1 = all of it.
double highest_use(const Schedule& schedule, const Machine& machine, const SimOptions& options);
// Step time at double rates and no latencies over half of that at single rates, less 1.
double doubling_error(const Schedule& schedule, const Machine& machine, const SimOptions& options);
// How much longer a step is than with any smaller factor on these rates, as a part of it, for
// `count` random factors from a quarter to two.
double lengthening(const Schedule& schedule, const Machine& machine, const SimOptions& options,
                   const std::vector<std::string>& rates, std::mt19937& random, int count);

}  // namespace spillway
