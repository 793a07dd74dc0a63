// A result fed back in: the seconds its ops took, for scheduling the same program again.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/program.h"

namespace spillway {

// `op_mean_seconds` of a result as `run --json` writes it. Throws InputError where the file cannot
// be read or holds none.
std::map<std::string, double> load_profile(const std::string& file);

// Throws InputError, naming ops, unless every op of the profile is one of the program. Adds a
// warning with the number of the program's ops that the profile lacks, if any.
void match_profile(const std::map<std::string, double>& profile, const Program& program,
                   const std::string& file, std::vector<std::string>& warnings);

}  // namespace spillway
