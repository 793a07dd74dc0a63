// What one op asks of a machine, and how ops that run together share it. Private to the simulator
// and op_seconds(); feasible values come from the machine's figures only.
#pragma once

#include <array>

#include "harness/executor.h"

namespace spillway {

// What ops on different lanes compete for.
enum class Resource : uint8_t { cores, link_out, link_in, hbm };
inline constexpr int resource_count = 4;

// Seconds an op takes alone, and the part of each resource it occupies meanwhile, on average over
// its time (1 = all the usable capacity). An average even where an op first streams and then
// computes: with a profile in time, a collective that starts together with a matmul meets its
// streaming part more the shorter it is, and a faster fabric could lengthen a step.
struct Demand {
  double seconds = 0;
  std::array<double, resource_count> share{};

  double& operator[](Resource resource) { return share[static_cast<size_t>(resource)]; }
  double operator[](Resource resource) const { return share[static_cast<size_t>(resource)]; }
};

Demand demand_of(const Program& program, const Op& op, const Machine& machine,
                 const SimOptions& options);

// Speeds (1 = as fast as alone) of what runs at one moment; null where a lane is idle. Resource by
// resource, in the order of Resource, capacity is shared max-min fairly: who asks for less than an
// equal part gets it, the rest share what is left. An op held back by one resource asks the later
// ones for as much less.
std::array<double, lane_count> fair_speeds(const std::array<const Demand*, lane_count>& running);

}  // namespace spillway
