// The course of a calibration, and the machine file it makes.
#include "sweeps/calibrate.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "harness/error.h"
#include "harness/measurement.h"
#include "harness/rates_json.h"
#include "harness/thread_pool.h"
#include "sweeps/calibrate_parts.h"

namespace spillway {

namespace {

constexpr double reference_part = 900;  // of the time, for one timing of the reference

}  // namespace

double Calibrator::between_references(const std::string& what, const Work& work) {
  options.progress(what);
  std::vector<double> times;
  const auto time_again = [&] {
    times.push_back(reference.time(options.seconds / reference_part).seconds);
  };
  time_again();
  work(time_again);
  time_again();
  references.insert(references.end(), times.begin(), times.end());
  return median_of(times).seconds;
}

namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  char buffer[16];
  std::strftime(buffer, sizeof buffer, "%Y-%m-%d", std::gmtime(&now));
  return buffer;
}

// All groups at one pace: that at which the reference takes `reference` seconds.
std::vector<OpRate> rates_of(const std::vector<OpGroup>& groups, double reference) {
  OpSamples together;
  for (const OpGroup& group : groups) {
    const double pace = reference / group.reference;
    for (const auto& [size, seconds] : group.samples) {
      auto found = std::find_if(together.begin(), together.end(),
                                [&, wanted = &size](const auto& e) { return e.first == *wanted; });
      if (found == together.end()) found = together.insert(together.end(), {size, {}});
      for (const double run : seconds)
        found->second.push_back(run * pace);
    }
  }
  std::vector<OpRate> rates;
  for (const auto& [size, seconds] : together) {
    const Reference median = median_of(seconds);
    rates.push_back({size, median.seconds, median.spread, static_cast<int64_t>(seconds.size())});
  }
  return rates;
}

// One row for each load: the median over models.
std::vector<Contention> medians_of(const std::vector<Contention>& rows) {
  std::vector<Contention> medians;
  for (const Contention& row : rows) {
    const auto same = [&](const Contention& other) {
      return other.lanes == row.lanes && other.paced == row.paced;
    };
    if (std::any_of(medians.begin(), medians.end(), same)) continue;
    std::vector<double> moved, products, stream;
    for (const Contention& other : rows) {
      if (!same(other)) continue;
      moved.push_back(other.moved);
      products.push_back(other.products);
      stream.push_back(other.stream);
    }
    medians.push_back({row.lanes, row.paced, median_of(moved).seconds, median_of(products).seconds,
                       median_of(stream).seconds});
  }
  return medians;
}

Rates measure(const CalibrateOptions& options) {
  Calibrator calibrator{.options = options, .reference = {}};
  Rates rates;
  rates.date = today();
  const nlohmann::json here = environment();
  for (const auto& [key, value] : here.items())
    rates.environment[key] = value.is_string() ? value.get<std::string>() : value.dump();
  rates.threads = usable_cpus();
  const std::vector<CalibrationPoint> points = calibration_points(options.models);
  // What is left of the time after warm-up steps and copies, with room for both.
  const double each = options.seconds / (3 * static_cast<double>(points.size()));
  std::vector<OpGroup> groups;
  std::vector<double> gaps;
  std::vector<Contention> contention;
  for (const CalibrationPoint& point : points)
    groups.push_back(measure_ops(calibrator, point, each, gaps, contention));
  groups.push_back(measure_other_ops(calibrator));
  measure_copies(calibrator, rates);
  rates.reference = median_of(calibrator.references);
  rates.ops = rates_of(groups, rates.reference.seconds);
  rates.contention = medians_of(contention);
  rates.copy_cost = fit_copy_cost(rates.contention);
  rates.overheads.between_ops = median_of(gaps).seconds;
  return rates;
}

}  // namespace

Machine calibrate(const CalibrateOptions& options) {
  Machine machine;
  machine.name = machine.file = "host";
  machine.rates = measure(options);
  machine.figures = figures_of(machine.rates);
  return machine;
}

std::string machine_file_text(const Machine& machine) {
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  for (const auto& [key, figure] : machine.figures) {
    figures[key] = {{"value", figure.value}, {"source", figure.source}};
    if (figure.assumed) figures[key]["assumed"] = true;
    if (!figure.date.empty()) figures[key]["date"] = figure.date;
  }
  const nlohmann::ordered_json file = {
      {"name", machine.name}, {"figures", figures}, {"rates", json_of(machine.rates)}};
  return file.dump(1) + "\n";
}

}  // namespace spillway
