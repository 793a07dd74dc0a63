// Shipped machine files by name, others by path.
#pragma once

#include <string>
#include <vector>

#include "harness/machine.h"

namespace spillway {

inline constexpr const char* default_machine = "gb200-nvl72";   // of simulations
inline constexpr const char* scheduling_machine = "cpu-2core";  // latencies for CPU schedules

// Throws InputError: unknown name (lists the shipped ones), unreadable file, bad contents.
Machine load_machine(const std::string& name_or_path);
std::vector<std::string> machine_names();

}  // namespace spillway
