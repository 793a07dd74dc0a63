// From a few layers to all of them.
#include "sweeps/projection.h"

#include <algorithm>
#include <map>

#include "harness/error.h"
#include "harness/measurement.h"
#include "sweeps/machines.h"
#include "workloads/config.h"

namespace spillway {
namespace {

using nlohmann::json;

std::map<std::string, const Op*> by_name(const Segment& segment) {
  std::map<std::string, const Op*> ops;
  for (const Op& op : segment.ops)
    ops[op.name] = &op;
  return ops;
}

// When the compute lane enters a segment.
double begin_of(const Trace& trace, int segment) { return interval_of(trace, segment, 0).begin; }

// Of a loop: between the beginnings of its second and its last iteration; of two iterations the mean.
double iteration_seconds(const Trace& trace, int segment, int64_t trips, double whole) {
  if (trips < 3) return whole / static_cast<double>(trips);
  const double first = interval_of(trace, segment, 1).begin,
               last = interval_of(trace, segment, trips - 1).begin;
  return (last - first) / static_cast<double>(trips - 2);
}

// One segment of the whole model's step.
struct SegmentTime {
  std::string name;
  int64_t iterations = 1, of_iterations = 1;
  double seconds_per_iteration = 0, seconds = 0;
};

class Projector {
 public:
  Projector(const Prepared& part, const Prepared& whole)
      : part_(part.schedule.program),
        whole_(whole.schedule.program),
        ran_(part),
        modelled_(whole) {}

  // Why it cannot be done; empty where it can.
  std::string obstacle() const {
    for (size_t s = 0; s < std::max(part_.segments.size(), whole_.segments.size()); ++s) {
      const bool alike = s < part_.segments.size() && s < whole_.segments.size() &&
                         part_.segments[s].name == whole_.segments[s].name &&
                         (part_.segments[s].trips > 1) == (whole_.segments[s].trips > 1);
      if (!alike)
        return text(
            "a projection needs every loop of the whole step to run at least twice: the "
            "step of these layers is ",
            names_of(part_), ", the whole one ", names_of(whole_), "; expected more --layers");
    }
    return "";
  }

  std::vector<SegmentTime> times_of(const Trace& trace) const {
    const std::vector<std::vector<double>> measured = mean_op_seconds(ran_.schedule, {trace});
    std::vector<SegmentTime> times;
    for (size_t s = 0; s < part_.segments.size(); ++s) {
      const auto index = static_cast<int>(s);
      const bool last = s + 1 == part_.segments.size();
      const double begin = s == 0 ? 0 : begin_of(trace, index);
      const double end = last ? trace.seconds : begin_of(trace, index + 1);
      const Segment &part = part_.segments[s], &whole = whole_.segments[s];
      SegmentTime time{whole.name, whole.trips, part.trips, end - begin, end - begin};
      if (part.trips > 1) {
        time.seconds_per_iteration = iteration_seconds(trace, index, part.trips, end - begin);
        time.seconds += time.seconds_per_iteration * static_cast<double>(whole.trips - part.trips);
      } else {
        time.seconds += growth(part, whole, measured[s]);
        time.seconds_per_iteration = time.seconds;
      }
      times.push_back(time);
    }
    return times;
  }

  // Compute ops of the whole step that the run has none of: slices, casts and writes of shards.
  double modelled_op_seconds() const {
    double seconds = 0;
    for (size_t s = 0; s < whole_.segments.size(); ++s) {
      const auto ran = by_name(part_.segments[s]);
      for (const Op& op : whole_.segments[s].ops)
        if (lane_of(op) == Lane::compute && ran.count(op.name) == 0)
          seconds += op_seconds(whole_, op, modelled_.machine, modelled_.sim) *
                     static_cast<double>(whole_.segments[s].trips);
    }
    return seconds;
  }

 private:
  static std::string names_of(const Program& program) {
    std::string names;
    for (const Segment& segment : program.segments)
      names += text(names.empty() ? "" : ", ", segment.name, " x", segment.trips);
    return names;
  }

  // What ops of straight-line code take more, or less, at the whole model's sizes: as much as on the
  // machine the step was scheduled for (the optimizer over stacked weights grows with its bytes).
  double growth(const Segment& part, const Segment& whole,
                const std::vector<double>& seconds) const {
    const auto ops = by_name(whole);
    double more = 0;
    for (size_t i = 0; i < part.ops.size(); ++i) {
      const Op& op = part.ops[i];
      const auto found = ops.find(op.name);
      if (lane_of(op) != Lane::compute || found == ops.end()) continue;
      const double here = op_seconds(part_, op, ran_.machine, ran_.sim);
      const double there = op_seconds(whole_, *found->second, ran_.machine, ran_.sim);
      if (here > 0) more += seconds[i] * (there / here - 1);
    }
    return more;
  }

  const Program &part_, &whole_;
  const Prepared &ran_, &modelled_;
};

std::string machine_named(const Prepared& prepared) {
  return prepared.point.machine.empty() ? prepared.machine.name : prepared.point.machine;
}

// The whole step, planned for a simulation: nothing of it runs here. One device has no collectives to
// rotate, so that beside its run the whole step must not have them rotated either.
Prepared whole_step(const Prepared& prepared, const Settings& settings, bool rotate_collectives) {
  Point point = prepared.point;
  point.pipeline_collectives = point.pipeline_collectives && rotate_collectives;
  point.layers = load_model(point.model).layers;
  if (point.executor == ExecutorKind::sim) return plan_point(point, settings);
  point.moe.ragged_buffer_factor = 0;
  point.executor = ExecutorKind::sim;
  // A CPU's machine has no fabric to model collectives on.
  const bool can_model = prepared.machine.figures.count("hbm_bytes") > 0;
  point.machine = can_model ? machine_named(prepared) : default_machine;
  Settings planning;
  if (can_model) planning.machine_figures = settings.machine_figures;
  return plan_point(point, planning);
}

// What compute stands waiting for collectives in a simulation of the whole step.
double collective_seconds(const Prepared& whole) {
  double seconds = 0;
  const Outcome outcome = run_sim(whole);
  for (const WaitTime& wait : waits_for(outcome.traces.front(), Lane::collective))
    seconds += wait.seconds;
  return seconds;
}

json segments_json(const std::vector<SegmentTime>& times) {
  json rows = json::array();
  for (const SegmentTime& time : times)
    rows.push_back({{"segment", time.name},
                    {"iterations", time.iterations},
                    {"of_iterations", time.of_iterations},
                    {"seconds_per_iteration", time.seconds_per_iteration},
                    {"seconds", time.seconds}});
  return rows;
}

double total(const std::vector<SegmentTime>& times) {
  double seconds = 0;
  for (const SegmentTime& time : times)
    seconds += time.seconds;
  return seconds;
}

// The projection of the step in the middle of all steps.
std::vector<SegmentTime> median_times(const Projector& projector,
                                      const std::vector<Trace>& traces) {
  std::vector<std::vector<SegmentTime>> all;
  for (const Trace& trace : traces)
    all.push_back(projector.times_of(trace));
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return total(a) < total(b); });
  return all[all.size() / 2];
}

json without_step(json projection, const std::string& reason) {
  projection["step_seconds"] = nullptr;
  projection["reason"] = reason;
  return projection;
}

}  // namespace

bool runs_part_of_model(const Point& point) {
  return point.layers && *point.layers < load_model(point.model).layers;
}

int64_t devices_in_run(const Point& point) {
  return point.executor == ExecutorKind::sim ? point.devices : 1;
}

json projection_of(const Prepared& prepared, const std::vector<Trace>& traces,
                   const Settings& settings) {
  const Point& point = prepared.point;
  if (!runs_part_of_model(point) || traces.empty()) return nullptr;
  const bool simulated = point.executor == ExecutorKind::sim;
  const Prepared whole = whole_step(prepared, settings, simulated);
  json projection = {{"kind", "projected"},
                     {"layers", *whole.point.layers},
                     {"of_layers", *point.layers},
                     {"devices", point.devices},
                     {"machine", whole.machine.name},
                     {"peak_hbm_bytes", whole.plan.device_bytes},
                     {"modelled", nullptr}};
  if (traces.front().spans.empty()) return without_step(projection, "ops were not timed");
  const Projector projector(prepared, whole);
  if (const std::string why = projector.obstacle(); !why.empty())
    return without_step(projection, why);
  const std::vector<SegmentTime> times = median_times(projector, traces);
  double seconds = total(times);
  if (point.devices > devices_in_run(point)) {
    const double ops = projector.modelled_op_seconds(),
                 waits = collective_seconds(whole_step(prepared, settings, true));
    projection["modelled"] = {{"op_seconds", ops}, {"collective_seconds", waits}};
    seconds += ops + waits;
  }
  projection["segments"] = segments_json(times);
  projection["step_seconds"] = seconds;
  projection["tflops_per_s_per_device"] = whole.account.flops_step_causal / seconds / 1e12;
  projection["tokens_per_s_per_device"] =
      static_cast<double>(*point.micro_batch * *point.seq) / seconds;
  return projection;
}

}  // namespace spillway
