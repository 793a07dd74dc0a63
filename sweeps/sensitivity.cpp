// The variations of a sweep and their runs.
#include "sweeps/sensitivity.h"

#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>
#include <thread>

#include "harness/error.h"
#include "harness/thread_pool.h"
#include "reports/published.h"
#include "sweeps/changed_machine.h"
#include "sweeps/fit.h"
#include "sweeps/link.h"
#include "sweeps/machines.h"

namespace spillway {

namespace {

// The simulated points of a file and what they have in common.
struct Studied {
  const Sweep* sweep = nullptr;
  std::vector<const SweepPoint*> points;
  const SweepPoint* fitted_on = nullptr;
  Machine machine;
};

Studied studied(const Sweep& sweep) {
  const SweepHeader& header = sweep.headers.front();
  Studied result;
  result.sweep = &sweep;
  for (const SweepPoint& point : sweep.points)
    if (point.sweep == header.name && point.point.executor == ExecutorKind::sim)
      result.points.push_back(&point);
  if (result.points.empty())
    throw InputError(text("sensitivity: ", header.name,
                          ": found no simulated point of its own, expected at least one"));
  const std::string machine = machine_of(result.points.front()->point);
  for (const SweepPoint* point : result.points)
    if (machine_of(point->point) != machine)
      throw InputError(text("sensitivity: ", header.name, ": machine: found '", machine, "' and '",
                            machine_of(point->point), "', expected one for all points"));
  result.machine = load_machine(machine);
  result.fitted_on = sweep.calibrated_on(header);
  return result;
}

SensitivityRow run_row(const SweepPoint& point, const Alternative& alternative, Settings settings) {
  SensitivityRow row;
  row.label = point.label;
  if (!point.published.empty()) {
    const Published& published = find_published(point.published);
    row.published = published.tflops_per_s_per_device;
    row.published_outcome = published.outcome;
    if (published.peak_hbm_gib) row.published_peak_bytes = *published.peak_hbm_gib * bytes_per_gib;
  }
  try {
    const Point changed = under(alternative, point);
    if (!changed.link.empty()) settings.link_bytes_per_second = resolve_link(changed, settings);
    const Prepared prepared = prepare(changed, settings);
    row.status = name_of(prepared.status);
    row.peak_hbm_bytes = static_cast<double>(prepared.plan.device_bytes);
    if (prepared.status != Status::ok) return row;
    const double flops = static_cast<double>(prepared.account.flops_step_causal);
    row.tflops_per_s_per_device = flops / 1e12 / run_sim(prepared).traces.front().seconds;
  } catch (const InputError&) {
    throw;
  } catch (const std::exception&) {
    row.status = name_of(Status::failed);
  }
  return row;
}

// All rows under one alternative. `efficiency`: of another sweep; else the sweep's own is solved.
SensitivityVariation run_variation(const Studied& study, const std::string& of,
                                   const Alternative& alternative, const Number& efficiency = {}) {
  SensitivityVariation variation{of, alternative.label, {}, {}, {}};
  Settings settings;
  settings.machine_figures = alternative.machine_figures;
  try {
    if (efficiency) {
      settings.fitted = Fitted{"matmul_efficiency", *efficiency, of};
    } else if (study.fitted_on != nullptr) {
      SweepPoint on = *study.fitted_on;
      on.point = under(alternative, on);
      const double published = find_published(on.published).tflops_per_s_per_device.value();
      settings.fitted = fit_matmul_efficiency(on, published, settings);
    }
  } catch (const RunError& error) {
    variation.failure = error.what();
    return variation;
  }
  if (settings.fitted) variation.fitted = settings.fitted->value;
  for (const SweepPoint* point : study.points) {
    variation.rows.push_back(run_row(*point, alternative, settings));
    variation.rows.back().fitted = !efficiency && point == study.fitted_on;
  }
  return variation;
}

// A run and where its result goes.
struct Job {
  std::function<SensitivityVariation()> run;
  SensitivityVariation* into = nullptr;
};

void run_all(const std::vector<Job>& jobs) {
  std::atomic<size_t> next{0};
  std::mutex guard;
  std::exception_ptr first_error;
  const auto serve = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++)
      try {
        *jobs[i].into = jobs[i].run();
      } catch (...) {
        const std::lock_guard lock(guard);
        if (!first_error) first_error = std::current_exception();
      }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < usable_cpus(); ++i)
      threads.emplace_back(serve);
    serve();
  }
  if (first_error) std::rethrow_exception(first_error);
}

std::vector<SensitivityHypothesis> hypotheses_to_try(const Studied& study, std::vector<Job>& jobs) {
  const std::vector<Hypothesis>& stated = study.sweep->headers.front().hypotheses;
  std::vector<SensitivityHypothesis> result;
  for (const Hypothesis& hypothesis : stated)
    result.push_back({hypothesis.id, hypothesis.setting, hypothesis.status,
                      std::vector<SensitivityVariation>(hypothesis.alternatives.size())});
  for (size_t h = 0; h < stated.size(); ++h)
    for (size_t i = 0; i < stated[h].alternatives.size(); ++i)
      jobs.push_back({[&study, &hypothesis = stated[h], i] {
                        return run_variation(study, hypothesis.id, hypothesis.alternatives[i]);
                      },
                      &result[h].alternatives[i]});
  return result;
}

std::string percent_text(double value, double of) {
  return text(plain(value), " (", with_sign(100 * (value / of - 1), 0), " %)");
}

std::vector<SensitivityConstant> constants_to_try(const Studied& study, std::vector<Job>& jobs) {
  std::vector<SensitivityConstant> result;
  for (const auto& [key, figure] : study.machine.figures) {
    if (!figure.assumed) continue;
    const size_t values = other_values(key, figure.value).size();
    result.push_back(
        {key, figure.source, figure.value, true, std::vector<SensitivityVariation>(values)});
  }
  for (SensitivityConstant& constant : result) {
    const std::vector<double> values = other_values(constant.figure, constant.value);
    for (size_t i = 0; i < values.size(); ++i) {
      Alternative changed{percent_text(values[i], constant.value)};
      changed.machine_figures = {{constant.figure, values[i]}};
      jobs.push_back({[&study, changed, figure = constant.figure] {
                        return run_variation(study, figure, changed);
                      },
                      &constant.variations[i]});
    }
  }
  return result;
}

std::vector<PrecisionRate> rates_of(const Machine& machine, double fitted) {
  std::vector<PrecisionRate> rates;
  for (const Precision precision : {Precision::bf16, Precision::fp8, Precision::nvfp4}) {
    const std::string name = name_of(precision);
    if (machine.figures.count("matmul_peak_" + name) == 0) continue;
    const double peak = machine.figure("matmul_peak_" + name);
    const double reached = peak * machine.figure("matmul_ratio_" + name);
    rates.push_back({name, peak, reached * machine.figure("matmul_efficiency"), reached * fitted});
  }
  return rates;
}

SweepSensitivity sensitivity_of_one(const Studied& study) {
  const SweepHeader& header = study.sweep->headers.front();
  SweepSensitivity result;
  result.name = header.name;
  result.tolerance_percent = header.tolerance_percent;
  if (study.fitted_on != nullptr) result.fitted_on = study.fitted_on->label;
  std::vector<Job> jobs{{[&] { return run_variation(study, "", {"nothing"}); }, &result.base}};
  result.hypotheses = hypotheses_to_try(study, jobs);
  result.constants = constants_to_try(study, jobs);
  run_all(jobs);
  result.machine_efficiency = study.machine.figure("matmul_efficiency");
  result.efficiency_source = study.machine.figures.at("matmul_efficiency").source;
  result.rates = rates_of(study.machine, result.base.fitted.value_or(result.machine_efficiency));
  return result;
}

}  // namespace

std::vector<double> other_values(const std::string& key, double value) {
  constexpr double spread = 0.2;
  std::vector<double> values;
  for (const double factor : {1 - spread, 1 + spread}) {
    double other = value * factor;
    // Devices are whole.
    if (key == "gpus_per_domain" || key == "host_devices") other = std::round(other);
    if (!is_legal_figure(key, other)) other = 1;
    if (other != value) values.push_back(other);
  }
  return values;
}

std::vector<SweepSensitivity> sensitivity_of(const std::vector<Sweep>& sweeps) {
  std::vector<Studied> studies;
  for (const Sweep& sweep : sweeps)
    studies.push_back(studied(sweep));
  std::vector<SweepSensitivity> results;
  for (const Studied& study : studies)
    results.push_back(sensitivity_of_one(study));
  for (size_t to = 0; to < results.size(); ++to)
    for (const SweepSensitivity& from : results)
      if (&from != &results[to] && from.base.fitted)
        results[to].transfers.push_back(
            run_variation(studies[to], from.name, {"figure of " + from.name}, from.base.fitted));
  return results;
}

}  // namespace spillway
