#include "tests/support/sim_laws.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/measurement.h"
#include "harness/sim_clock.h"

namespace spillway {
namespace {

double seconds_of(const Schedule& schedule, const Machine& machine, const SimOptions& options) {
  return make_sim_executor(schedule, machine, options)->step().seconds;
}

}  // namespace

std::vector<std::string> link_rates() {
  return {"link_h2d", "link_d2h", "link_h2d_all", "link_d2h_all", "host_bandwidth"};
}
std::vector<std::string> fabric_rates() { return {"nvlink_bandwidth", "nic_bandwidth"}; }
std::vector<std::string> compute_rates() {
  return {"matmul_peak_fp32", "matmul_peak_bf16", "matmul_peak_fp8", "matmul_peak_nvfp4",
          "hbm_bandwidth"};
}
std::vector<std::string> all_rates() {
  std::vector<std::string> all = link_rates();
  for (const std::vector<std::string>& some : {fabric_rates(), compute_rates()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

Machine without_latencies(Machine machine) {
  for (auto& [key, figure] : machine.figures)
    if (key == "launch_seconds" || key == "collective_latency") figure.value = 0;
  return machine;
}

Machine faster(Machine machine, const std::vector<std::string>& rates, double factor) {
  for (const std::string& key : rates)
    if (const auto found = machine.figures.find(key); found != machine.figures.end())
      found->second.value *= factor;
  return machine;
}

int64_t unplanned_bytes(const Schedule& schedule, const Trace& trace) {
  std::array<int64_t, lane_count> planned{};
  for (const Segment& segment : schedule.program.segments)
    for (const Op& op : segment.ops) {
      if (lane_of(op) == Lane::compute) continue;
      // Of gathers the full buffers, which are what comes out; of an exchange not its offsets.
      std::vector<Operand> moved = op.kind == OpKind::all_gather ? op.outputs : op.inputs;
      if (op.kind == OpKind::all_to_all) moved.resize(1);
      for (const Operand& operand : moved)
        planned[index_of(lane_of(op))] +=
            segment.trips * range_of(schedule.program, operand, 0).size;
    }
  int64_t worst = 0;
  for (size_t lane = 0; lane < lane_count; ++lane)
    worst = std::max(worst, std::abs(trace.bytes_moved[lane] - planned[lane]));
  return worst;
}

double unaccounted(const Trace& trace) {
  double worst = 0;
  for (size_t lane = 0; lane < lane_count; ++lane) {
    std::vector<Span> spans;
    for (const Span& span : every_span(trace))
      if (span.lane == static_cast<Lane>(lane) && span.begin < span.end) spans.push_back(span);
    std::sort(spans.begin(), spans.end(),
              [](const Span& a, const Span& b) { return a.begin < b.begin; });
    double idle = 0, reached = 0;
    for (const Span& span : spans) {
      worst = std::max(worst, (reached - span.begin) / trace.seconds);
      idle += std::max(0.0, span.begin - reached);
      reached = std::max(reached, span.end);
    }
    worst = std::max(worst, (reached - trace.seconds) / trace.seconds);
    idle += std::max(0.0, trace.seconds - reached);
    const LaneTimes times = lane_times(trace, static_cast<Lane>(lane));
    const double sum = times.busy + times.waiting + idle;
    worst = std::max(worst, std::abs(sum - trace.seconds) / trace.seconds);
  }
  return worst;
}

double highest_use(const Schedule& schedule, const Machine& machine, const SimOptions& options) {
  double highest = 0;
  const SimWatch watch = [&](double, const std::array<const Demand*, lane_count>& running,
                             const std::array<double, lane_count>& speeds) {
    for (size_t resource = 0; resource < resource_count; ++resource) {
      double used = 0;
      for (size_t lane = 0; lane < lane_count; ++lane)
        if (running[lane]) used += running[lane]->share[resource] * speeds[lane];
      highest = std::max(highest, used);
    }
  };
  const SimProgram program = flatten(schedule, machine, options);
  SimClock clock(program, watch);
  do {
    clock.begin_all();
  } while (clock.pass_time());
  clock.check_finished();
  return highest;
}

double doubling_error(const Schedule& schedule, const Machine& machine, const SimOptions& options) {
  const Machine plain = without_latencies(machine);
  const double once = seconds_of(schedule, plain, options);
  return std::abs(seconds_of(schedule, faster(plain, all_rates(), 2), options) / once * 2 - 1);
}

double lengthening(const Schedule& schedule, const Machine& machine, const SimOptions& options,
                   const std::vector<std::string>& rates, std::mt19937& random, int count) {
  std::vector<double> factors(static_cast<size_t>(count));
  for (double& factor : factors)
    factor = std::exp2(std::uniform_real_distribution<double>(-2, 1)(random));
  std::sort(factors.begin(), factors.end());
  double shortest = std::numeric_limits<double>::infinity(), worst = 0;
  for (const double factor : factors) {
    const double seconds = seconds_of(schedule, faster(machine, rates, factor), options);
    worst = std::max(worst, seconds / shortest - 1);
    shortest = std::min(shortest, seconds);
  }
  return worst;
}

}  // namespace spillway
