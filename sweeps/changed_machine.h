// A machine with some of its figures changed: what if an assumption were another.
#pragma once

#include <map>
#include <string>

#include "harness/machine.h"
#include "sweeps/point.h"

namespace spillway {

// Throws InputError for a figure that the machine does not state, and for a value out of range.
Machine change_figures(Machine machine, const std::map<std::string, double>& figures);

// Whether a machine file may give the figure this value.
bool is_legal_figure(const std::string& key, double value);

// The machine that a simulated point runs on.
std::string machine_of(const Point& point);

}  // namespace spillway
