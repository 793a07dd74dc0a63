// Runs points for real and simulates the very same schedules.
#include "sweeps/validate.h"

#include <algorithm>
#include <cmath>

#include "harness/error.h"
#include "harness/live_bytes.h"
#include "harness/measurement.h"
#include "sweeps/input_digest.h"
#include "sweeps/link.h"
#include "sweeps/machines.h"
#include "sweeps/probe.h"
#include "sweeps/run.h"
#include "sweeps/validate_points.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr int64_t visits_of_a_point = 2;
constexpr int64_t least_timed_steps = 3, most_timed_steps = 10;  // timed, of a visit
constexpr double reference_part_of_visit = 1.0 / 15;             // for timing the reference
constexpr std::byte arena_pattern{0xa5};

StepTimes step_times(const Schedule& schedule, const Trace& trace) {
  StepTimes times;
  times.seconds = trace.seconds;
  for (const Transfer& transfer : transfers_of(schedule, trace)) {
    times.transfers += transfer.seconds;
    times.exposed += transfer.exposed_seconds;
  }
  for (const auto& [kind, seconds] : seconds_by_kind(schedule, trace))
    times.busy[info(kind).name] = seconds;
  return times;
}

Trace simulated_step(const Prepared& prepared, double slowness) {
  Machine machine = prepared.machine;
  machine.rates = slowed(machine.rates, slowness);
  return make_sim_executor(prepared.schedule, machine, prepared.sim)->step();
}

json json_of(const StepTimes& times) {
  return {{"seconds", times.seconds},
          {"transfers", times.transfers},
          {"exposed", times.exposed},
          {"busy", times.busy}};
}

StepTimes step_times_from(const json& object) {
  return {object.at("seconds"), object.at("transfers"), object.at("exposed"), object.at("busy")};
}

int64_t changed_bytes(const CpuExecutor& executor) {
  const int64_t bytes = executor.highest_changed_byte(arena_pattern) + 1;
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

class Validation {
 public:
  Validation(const ValidateOptions& options, Store& store)
      : options_(options), store_(store), machine_(load_machine(options.machine)) {
    if (machine_.rates.empty())
      throw InputError(text("--machine: ", options.machine, " has no rates, expected a file that ",
                            "`spillway calibrate` wrote"));
    for (const std::string& model : options.models)
      for (ValidatePoint& point : validate_points(model, options.machine, matched_rate(model)))
        points_.push_back(std::move(point));
  }

  std::vector<ValidateRecord> run() {
    for (int64_t visit = 0; visit < visits_of_a_point; ++visit)
      for (size_t i = 0; i < points_.size(); ++i)
        if (static_cast<int64_t>(store_.visits(key_of(points_[i])).size()) <= visit) {
          options_.progress(text("visit ", visit + 1, " of ", visits_of_a_point, ", point ", i + 1,
                                 " of ", points_.size(), ": ", label_of(points_[i])));
          store_.add_visit(key_of(points_[i]), visit_of(points_[i]));
        }
    std::vector<ValidateRecord> records;
    for (const ValidatePoint& point : points_)
      records.push_back(record_of(point));
    return records;
  }

 private:
  std::string key_of(const ValidatePoint& point) {
    return text(label_of(point), ", ", point.link_bytes_per_second, " bytes/s, ",
                digests_.of(point.point));
  }

  // As --link match gives it for a proxy; a tenth of compute for a model that stands for none.
  double matched_rate(const std::string& model) {
    Point point;
    point.model = model;
    point.machine = options_.machine;
    point.link = "match:gb200-nvl72";
    const std::string name = text("link ", model, ", ", digests_.of(point));
    if (store_.resolved(name).is_null()) {
      options_.progress(text(model, ": matched link rate"));
      Settings settings;
      settings.memory = memory_;
      store_.resolve(name, load_model(model).proxy_of
                               ? resolve_link(point, settings)
                               : rate_for_part(model, options_.machine, 0.1));
    }
    return store_.resolved(name).get<double>();
  }

  Prepared prepared_of(const ValidatePoint& validated) const {
    Settings settings;
    settings.memory = memory_;
    if (validated.link_bytes_per_second > 0)
      settings.link_bytes_per_second = validated.link_bytes_per_second;
    Prepared prepared = prepare(validated.point, settings);
    if (prepared.status != Status::ok)
      throw RunError(text(label_of(validated), ": does not run: ", prepared.reason));
    return prepared;
  }

  double visit_seconds() const {
    return options_.seconds / static_cast<double>(points_.size()) / visits_of_a_point;
  }

  int64_t steps_of(const Prepared& prepared) const {
    const double steps = visit_seconds() / simulated_step(prepared, 1).seconds;
    // One is warm-up, another the time of arenas and references.
    return std::clamp(static_cast<int64_t>(steps) - 2, least_timed_steps, most_timed_steps);
  }

  json visit_of(const ValidatePoint& validated) {
    const Prepared prepared = prepared_of(validated);
    CpuExecutor executor(prepared.schedule, prepared.plan,
                         {.link_bytes_per_second = prepared.link_bytes_per_second}, memory_);
    executor.fill_arena(arena_pattern);
    executor.step();
    const int64_t changed = changed_bytes(executor);
    const int64_t count = steps_of(prepared);
    const double of_reference =
        visit_seconds() * reference_part_of_visit / static_cast<double>(count + 1);
    json steps = json::array(), references = json::array({reference_.time(of_reference).seconds});
    for (int64_t left = count; left > 0; --left) {
      steps.push_back(json_of(step_times(prepared.schedule, executor.step())));
      references.push_back(reference_.time(of_reference).seconds);
    }
    return {{"label", label_of(validated)},
            {"references", references},
            {"changed_bytes", changed},
            {"executed", steps}};
  }

  ValidateRecord record_of(const ValidatePoint& validated) {
    const Prepared prepared = prepared_of(validated);
    ValidateRecord record;
    record.label = label_of(validated);
    record.workload = workload_of(validated);
    record.link = validated.link;
    record.link_bytes_per_second = validated.link_bytes_per_second;
    record.planned_bytes = prepared.plan.device_bytes;
    const Trace trace = simulated_step(prepared, 1);
    record.calibrated = step_times(prepared.schedule, trace);
    for (const LiveBytes& live : live_curve(prepared.schedule, trace))
      record.live_bytes = std::max(record.live_bytes, live.bytes);
    for (const json& visit : store_.visits(key_of(validated))) {
      record.changed_bytes = std::max(record.changed_bytes, visit["changed_bytes"].get<int64_t>());
      record.visits.push_back(visit_from(visit, prepared));
    }
    return record;
  }

  ValidateVisit visit_from(const json& stored, const Prepared& prepared) const {
    ValidateVisit visit;
    // The median: on a shared machine one timing of several can be far out, where the steps beside
    // it are not.
    visit.slowness = statistics_of(stored["references"].get<std::vector<double>>()).median /
                     machine_.rates.reference.seconds;
    for (const json& step : stored["executed"])
      visit.executed.push_back(step_times_from(step));
    visit.simulated = step_times(prepared.schedule, simulated_step(prepared, visit.slowness));
    return visit;
  }

  const ValidateOptions& options_;
  Store& store_;
  const Machine machine_;
  ReferenceProduct reference_;
  std::shared_ptr<CpuMemory> memory_ = std::make_shared<CpuMemory>();
  InputDigests digests_;
  std::vector<ValidatePoint> points_;
};

}  // namespace

std::vector<ValidateRecord> validate(const ValidateOptions& options, Store& store) {
  return Validation(options, store).run();
}

}  // namespace spillway
