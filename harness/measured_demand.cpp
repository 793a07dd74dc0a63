// Demands of ops on a machine that `calibrate` measured: its own times first, figures where it has
// none.
#include <algorithm>

#include "harness/sim_demand.h"

namespace spillway {
namespace {

// What one op streams through memory while it runs, of what ops that do nothing else reach.
double memory_share(const Machine& machine, double bytes, double seconds) {
  const double rate = machine.figure("hbm_bandwidth") * machine.figure("hbm_efficiency");
  return std::min(1.0, bytes / seconds / rate);
}

std::optional<Demand> compute_demand(const Program& program, const Op& op, const Machine& machine) {
  const std::optional<double> seconds = measured_seconds(machine.rates, size_of(program, op));
  if (!seconds) return std::nullopt;
  Demand demand;
  demand.seconds = *seconds + machine.rates.overheads.between_ops;
  demand[Resource::cores] = 1;
  demand[Resource::hbm] = memory_share(machine, info(op.kind).cost(program, op).bytes, *seconds);
  return demand;
}

// The pace of the link, or what a thread copies where that is less. A copy holds processor time
// that compute goes without, and slows what streams as it was seen to.
std::optional<Demand> copy_demand(const Program& program, const Op& op, const Machine& machine,
                                  const SimOptions& options) {
  Demand demand;
  if (options.free_transfers) return demand;
  const double bytes = info(op.kind).cost(program, op).link_bytes;
  const bool out = op.kind == OpKind::copy_d2h;
  const std::optional<double> unpaced =
      unpaced_rate(machine.rates, out ? CopyLanes::d2h : CopyLanes::h2d, bytes);
  if (!unpaced) return std::nullopt;
  const double paced = options.link_bytes_per_second;
  const double moving = bytes / (paced > 0 ? std::min(paced, *unpaced) : *unpaced);
  const Overheads& overheads = machine.rates.overheads;
  demand.seconds = moving + overheads.copy_start + overheads.copy_end;
  if (demand.seconds <= 0) return demand;
  const double rate = bytes / demand.seconds;
  demand[out ? Resource::link_out : Resource::link_in] = 1;
  demand[Resource::cores] = std::min(1.0, machine.rates.copy_cost.products * rate);
  demand[Resource::hbm] = std::min(1.0, machine.rates.copy_cost.stream * rate);
  return demand;
}

}  // namespace

std::optional<Demand> measured_demand(const Program& program, const Op& op, const Machine& machine,
                                      const SimOptions& options) {
  if (machine.rates.empty()) return std::nullopt;
  if (is_host_copy(op)) return copy_demand(program, op, machine, options);
  if (lane_of(op) == Lane::compute) return compute_demand(program, op, machine);
  return std::nullopt;
}

}  // namespace spillway
