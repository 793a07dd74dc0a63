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
constexpr int64_t probe_layers = 2;
constexpr int64_t probe_warmup = 1, probe_steps = 4;

// Wall seconds of one layer, forward and backward, in one step. Peeled iterations have segments of
// their own, so the loops' own trips divide their time.
double layer_seconds(const Prepared& prepared, const Trace& trace) {
  double seconds = 0;
  for (size_t i = 0; i < prepared.schedule.program.segments.size(); ++i) {
    const Segment& segment = prepared.schedule.program.segments[i];
    if (segment.trips > 1)
      seconds += segment_seconds(trace, static_cast<int>(i)) / static_cast<double>(segment.trips);
  }
  return seconds;
}

double offloaded_bytes_per_layer(const Prepared& prepared) {
  return static_cast<double>(planned_bytes(prepared.schedule, Lane::d2h)) /
         static_cast<double>(prepared.config.layers);
}

// The point a proxy stands for, as in its published sweep: collectives rotated, LHS on.
Point full_size_point(const ProxyOf& proxy, const std::string& machine) {
  Point point;
  point.executor = ExecutorKind::sim;
  point.machine = machine;
  point.model = proxy.model;
  point.devices = proxy.devices;
  point.micro_batch = proxy.micro_batch;
  point.seq = proxy.seq;
  set_field(point, "precision", proxy.precision, "proxy_of");
  if (point.precision == Precision::nvfp4) point.projection_precision = Precision::fp8;
  point.policy = proxy.policy;
  point.pipeline_collectives = true;
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
  point.layers = probe_layers;
  point.pipeline = point.pipeline_collectives = false;
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
  return offloaded_bytes_per_layer(prepare(point, {}));
}

}  // namespace

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
