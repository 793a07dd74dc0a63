// Seconds and demands of one op, from the figures of a machine. Formulas only, no constants: each
// is stated where it is used, its figures are explained in the machine file.

#include <algorithm>
#include <limits>

#include "harness/error.h"
#include "harness/ops.h"
#include "harness/sim_demand.h"

namespace spillway {
namespace {

// The op under way and where its figures come from.
struct Context {
  const Program& program;
  const Op& op;
  const Machine& machine;
  const SimOptions& options;
  OpCost cost;

  double figure(std::string_view key) const { return machine.figure(key); }
};

// FLOP/s of a matrix product: efficiency x ratio of the precision x its peak.
double matmul_rate(const Context& c, Precision precision) {
  const double own = c.options.matmul_efficiency;
  const double efficiency = own > 0 ? own : c.figure("matmul_efficiency");
  const std::string name = name_of(precision);
  return efficiency * c.figure("matmul_ratio_" + name) * c.figure("matmul_peak_" + name);
}

double hbm_rate(const Context& c) { return c.figure("hbm_bandwidth") * c.figure("hbm_efficiency"); }

// A kernel that streams `bytes` through device memory: all of its usable bandwidth.
Demand streaming(const Context& c, double bytes) {
  Demand demand;
  demand.seconds = bytes / hbm_rate(c) + c.figure("launch_seconds");
  demand[Resource::cores] = 1;
  demand[Resource::hbm] = 1;
  return demand;
}

Demand arithmetic(const Context& c, double seconds) {
  Demand demand;
  demand.seconds = seconds + c.figure("launch_seconds");
  demand[Resource::cores] = 1;
  demand[Resource::hbm] = c.figure("matmul_hbm_share");
  return demand;
}

// One after the other, as one op.
Demand both(const Demand& a, const Demand& b) {
  Demand sum;
  sum.seconds = a.seconds + b.seconds;
  if (sum.seconds == 0) return sum;
  for (size_t i = 0; i < resource_count; ++i)
    sum.share[i] = (a.seconds * a.share[i] + b.seconds * b.share[i]) / sum.seconds;
  return sum;
}

// Narrow formats: passes over the operands that this product is the first of its body to read come
// before it. Bytes: those of the operands in the program's dtype x the figure. One op and not two, so
// that what runs beside it meets passes and product on average: where a pass of its own stands is
// chance, and a faster collective that meets more of it would lengthen a step.
Demand matmul_demand(const Context& c) {
  const Precision precision = c.op.attributes.precision;
  const Demand product = arithmetic(c, c.cost.matmul_flops / matmul_rate(c, precision));
  const auto bytes = static_cast<double>(c.op.attributes.quantised_bytes);
  if (bytes == 0) return product;
  const std::string key = std::string("quantisation_bytes_") + name_of(precision);
  return both(streaming(c, bytes * c.figure(key)), product);
}

// The kernel runs in the program's own precision; the tiled backward repeats one product.
Demand attention_demand(const Context& c) {
  const bool backward = c.op.kind == OpKind::attention_backward;
  const bool fp32 = c.op.attributes.precision == Precision::fp32;
  const double ratio = c.figure(backward ? "attention_ratio_backward" : "attention_ratio_forward");
  const double flops = c.cost.attention_flops + c.cost.attention_extra_flops;
  const double rate = ratio * matmul_rate(c, fp32 ? Precision::fp32 : Precision::bf16);
  return arithmetic(c, flops / rate);
}

// A device's part of its host's memory, all devices doing the same; a machine that does not state
// it has no such limit.
double host_memory_rate(const Context& c) {
  if (!c.machine.figures.contains("host_bandwidth")) return std::numeric_limits<double>::infinity();
  const double devices = static_cast<double>(c.program.devices);
  return c.figure("host_bandwidth") / std::min(devices, c.figure("host_devices"));
}

// A ring over n devices moves D (n-1)/n bytes through each; between fabric domains of m devices the
// same bytes cross m network cards. In an exchange each device sends D/n to every other one, those
// outside its domain over its own card. The slower of the two decides.
Demand collective_demand(const Context& c) {
  const double devices = static_cast<double>(c.op.attributes.devices);
  if (devices <= 1) return {};
  const double domain = std::min(devices, c.figure("gpus_per_domain"));
  const double bytes = c.cost.group_bytes * (devices - 1) / devices;
  const double fabric = c.figure("nvlink_bandwidth") * c.figure("nvlink_efficiency");
  const double network = c.figure("nic_bandwidth") * c.figure("nic_efficiency");
  const bool one_domain = domain == devices, exchange = c.op.kind == OpKind::all_to_all;
  const double crossing =
      exchange ? c.cost.group_bytes * (devices - domain) / devices : bytes / domain;
  const double network_bytes = one_domain ? 0 : crossing;

  Demand demand;
  demand.joins_ranks = true;
  demand.seconds =
      std::max(bytes / fabric, network_bytes / network) + c.figure("collective_latency");
  if (demand.seconds == 0) return demand;
  demand[Resource::cores] = c.figure("collective_sm_share");
  demand[Resource::hbm] = c.figure("collective_hbm_bytes") * bytes / demand.seconds / hbm_rate(c);
  demand[Resource::nvlink] = bytes / demand.seconds / fabric;
  if (!one_domain) demand[Resource::nic] = network_bytes / demand.seconds / network;
  // A link rate given for a run is for its copies alone.
  if (one_domain || c.options.link_bytes_per_second > 0) return demand;
  // As much comes in as goes out, through the memory of the host.
  const double on_link = c.figure("nic_on_host_link") * network_bytes / demand.seconds;
  demand[Resource::host_memory] = std::min(1.0, 2 * on_link / host_memory_rate(c));
  demand[Resource::link_out] = on_link / c.figure("link_d2h_all");
  demand[Resource::link_in] = on_link / c.figure("link_h2d_all");
  return demand;
}

// The rate of a device that copies alone, or of all devices copying at once.
Demand host_copy_demand(const Context& c) {
  Demand demand;
  if (c.options.free_transfers) return demand;
  const bool out = c.op.kind == OpKind::copy_d2h;
  double rate = c.options.link_bytes_per_second;
  if (rate <= 0)
    rate = c.figure(std::string(out ? "link_d2h" : "link_h2d") +
                    (c.program.devices > 1 ? "_all" : ""));
  demand.seconds = c.cost.link_bytes / rate;
  demand[out ? Resource::link_out : Resource::link_in] = 1;
  demand[Resource::host_memory] = std::min(1.0, rate / host_memory_rate(c));
  demand[Resource::hbm] = c.figure("copy_hbm_bytes") * rate / hbm_rate(c);
  return demand;
}

Demand device_copy_demand(const Context& c) {
  const double rate = c.figure("hbm_bandwidth") * c.figure("d2d_hbm_share");
  Demand demand = streaming(c, c.cost.bytes);
  demand.seconds = c.cost.bytes / rate + c.figure("launch_seconds");
  demand[Resource::hbm] = std::min(1.0, rate / hbm_rate(c));
  return demand;
}

}  // namespace

Demand demand_of(const Program& program, const Op& op, const Machine& machine,
                 const SimOptions& options) {
  if (const std::optional<Demand> measured = measured_demand(program, op, machine, options))
    return *measured;
  const Context context{program, op, machine, options, info(op.kind).cost(program, op)};
  if (is_product(op.kind)) return matmul_demand(context);
  switch (op.kind) {
    case OpKind::attention:
    case OpKind::attention_backward:
      return attention_demand(context);
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::all_to_all:
      return collective_demand(context);
    case OpKind::copy_d2h:
    case OpKind::copy_h2d:
      return host_copy_demand(context);
    case OpKind::copy_d2d:
      return device_copy_demand(context);
    case OpKind::quantise:  // part of the product that first reads the copy
      return {};
    default:  // everything else is bound by device memory
      return streaming(context, context.cost.bytes);
  }
}

double op_seconds(const Program& program, const Op& op, const Machine& machine,
                  const SimOptions& options) {
  return demand_of(program, op, machine, options).seconds;
}

}  // namespace spillway
