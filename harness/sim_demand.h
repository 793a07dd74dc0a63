// What one op asks of a machine, and how ops that run together share it. Private to the simulator
// and op_seconds(); feasible values come from the machine's figures only.
#pragma once

#include <array>
#include <optional>

#include "harness/executor.h"

namespace spillway {

// What ops on different lanes compete for.
enum class Resource : uint8_t {
  cores,
  hbm,
  link_out,     // to the host
  link_in,      // from it
  host_memory,  // a device's part of it, read + written, all devices doing the same
  nvlink,       // one way, as collectives use both
  nic,
};
inline constexpr size_t resource_count = 7;

// Seconds an op takes alone, and the part of each resource it occupies meanwhile, on average over
// its time (1 = all the usable capacity). An average even where an op first streams and then
// computes: with a profile in time, a collective that starts together with a matmul meets its
// streaming part more the shorter it is, and a faster fabric could lengthen a step.
struct Demand {
  double seconds = 0;
  std::array<double, resource_count> share{};
  bool joins_ranks = false;  // begins when all ranks of the group have arrived

  double& operator[](Resource resource) { return share[static_cast<size_t>(resource)]; }
  double operator[](Resource resource) const { return share[static_cast<size_t>(resource)]; }
};

Demand demand_of(const Program& program, const Op& op, const Machine& machine,
                 const SimOptions& options);

// The same from what `calibrate` measured; empty where it measured nothing that says.
std::optional<Demand> measured_demand(const Program& program, const Op& op, const Machine& machine,
                                      const SimOptions& options);

// Speeds (1 = as fast as alone) of what runs at one moment; null where a lane is idle. Max-min fair
// over all resources at once: no resource is used beyond its capacity, and whoever runs slower than
// alone has a bottleneck, a resource that is used up and of which nobody has more ("bottleneck max
// fairness": T. Bonald, J. Roberts, Multi-Resource Fairness: Objectives, Algorithms and Performance,
// SIGMETRICS 2015, https://arxiv.org/abs/1410.0782). Who asks for less than an equal part of a
// resource gets it, the rest share what is left.
std::array<double, lane_count> fair_speeds(const std::array<const Demand*, lane_count>& running);

}  // namespace spillway
