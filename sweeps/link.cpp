// The rate of the copy lanes of CPU runs.
#include "sweeps/link.h"

#include <algorithm>

#include "harness/error.h"
#include "harness/measurement.h"
#include "sweeps/machines.h"
#include "sweeps/parse.h"

namespace spillway {

namespace {

double parse_link_rate(const std::string& text) {
  try {
    return parse_positive_real("--link", text);
  } catch (const InputError&) {
    bad_value("--link", text, "GB/s greater than 0, or match:MACHINE[/K]");
  }
}

}  // namespace

bool is_matched_link(const std::string& text) { return text.starts_with("match:"); }

LinkOption parse_link_option(const std::string& text) {
  if (!is_matched_link(text))
    return {.bytes_per_second = parse_link_rate(text) * 1e9, .machine = ""};
  LinkOption option;
  option.machine = text.substr(6);
  if (const size_t slash = option.machine.rfind('/'); slash != std::string::npos) {
    // A machine file's path holds slashes too: only a number after the last one is a divisor.
    const std::string divisor = option.machine.substr(slash + 1);
    if (!divisor.empty() && divisor.find_first_not_of("0123456789.") == std::string::npos) {
      option.divisor = parse_positive_real("--link", divisor);
      option.machine.resize(slash);
    }
  }
  if (option.machine.empty())
    bad_value("--link", text, "GB/s, or match:MACHINE or match:MACHINE/K");
  return option;
}

namespace {

// Layers and timed steps of the run that measures the proxy's layer time.
constexpr int64_t probe_layers = 3;
constexpr int64_t probe_warmup = 1, probe_steps = 4;

// Wall seconds of one layer of the longest stack, forward and backward. Peeled iterations have
// segments of their own.
double layer_seconds(const Prepared& prepared, const Trace& trace) {
  const Program& program = prepared.schedule.program;
  double seconds = 0;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const int segment = longest_segment(program, pass);
    seconds += segment_seconds(trace, segment) /
               static_cast<double>(program.segments[static_cast<size_t>(segment)].trips);
  }
  return seconds;
}

// Bytes that one layer of the same stack writes to the host.
double offloaded_bytes_per_layer(const Prepared& prepared) {
  const Schedule& schedule = prepared.schedule;
  const int segment = longest_segment(schedule.program, Pass::forward);
  return static_cast<double>(planned_bytes(schedule, Lane::d2h, segment)) /
         static_cast<double>(schedule.program.segments[static_cast<size_t>(segment)].trips);
}

// The point a proxy stands for, with LHS and the rest as in its published sweep: projections in
// FP8; collectives joined up to 2 GiB and rotated where layers are dense; with experts not rotated,
// and tokens sent by masks.
Point full_size_point(const ProxyOf& proxy, const std::string& machine) {
  Point point;
  point.executor = ExecutorKind::sim;
  point.machine = machine;
  point.model = proxy.model;
  point.devices = proxy.devices;
  point.micro_batch = proxy.micro_batch;
  point.seq = proxy.seq;
  set_field(point, "precision", proxy.precision, "proxy_of");
  if (point.precision == Precision::nvfp4 || point.precision == Precision::fp8)
    point.projection_precision = Precision::fp8;
  point.policy = proxy.policy;
  point.moe.capacity_path = load_model(proxy.model).moe_layers > 0;
  point.pipeline_collectives = !point.moe.capacity_path;
  point.combine_bytes = int64_t{2} << 30;
  return point;
}

// Bytes per layer over link rate over layer time.
double published_ratio(const ProxyOf& proxy, const std::string& machine_name) {
  Settings settings;
  settings.free_transfers = true;
  const Prepared full = prepare(full_size_point(proxy, machine_name), settings);
  const double rate = (full.machine.figure("link_h2d") + full.machine.figure("link_d2h")) / 2;
  return offloaded_bytes_per_layer(full) / rate / layer_seconds(full, run_sim(full).traces.front());
}

double measured_layer_seconds(Point point, const ProxyOf& proxy, const Settings& settings) {
  // What the policy offloads stays on the device. Presets list names this model may lack, which
  // is an error by hand, so the names come from the summary of what the policy really moves.
  point.policy = proxy.policy;
  point.layers = layers_to_probe(load_model(point.model), probe_layers);
  point.pipeline = point.pipeline_collectives = false;
  point.resident_tail = 0;
  point.link.clear();
  point.hbm_bytes.reset();
  point.host_bytes.reset();
  point.poison = false;
  const Prepared offloading = prepare(point, {});
  std::string fates;
  for (const PolicySummary::Row& row : offloading.summary.rows)
    if (row.fate == Fate::offload) fates += text(fates.empty() ? "" : ",", row.name, "=device");
  point.policy = fates.empty() ? proxy.policy : fates;
  Settings unpaced;
  unpaced.memory = settings.memory;
  const Prepared probe = prepare(point, unpaced);
  if (probe.status != Status::ok)
    throw RunError("--link match: the probe does not fit: " + probe.reason);
  std::vector<double> seconds;
  for (const Trace& trace : run_cpu(probe, settings.memory, probe_steps, probe_warmup).traces)
    seconds.push_back(layer_seconds(probe, trace));
  return statistics_of(seconds).median;
}

double proxy_bytes_per_layer(Point point, const ProxyOf& proxy) {
  point.policy = proxy.policy;
  point.pipeline = false;
  point.resident_tail = 0;
  return offloaded_bytes_per_layer(prepare(point, {}));
}

}  // namespace

int64_t layers_to_probe(const ModelConfig& config, int64_t few) {
  return (config.moe_layers > 0 ? config.dense_layers : 0) + few;
}

double resolve_link(const Point& point, const Settings& settings) {
  const LinkOption option = parse_link_option(point.link);
  if (option.machine.empty()) return option.bytes_per_second;
  const ModelConfig config = load_model(point.model);
  if (!config.proxy_of)
    throw InputError(
        text("--link: found '", point.link, "' for model ", config.name,
             ", which says of no model that it stands for it (key proxy_of); expected a "
             "proxy, or a rate in GB/s"));
  const double ratio = published_ratio(*config.proxy_of, option.machine);
  const double layer = measured_layer_seconds(point, *config.proxy_of, settings);
  return proxy_bytes_per_layer(point, *config.proxy_of) / (ratio * layer) / option.divisor;
}

}  // namespace spillway
