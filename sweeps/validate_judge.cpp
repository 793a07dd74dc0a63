// Executed steps beside simulated ones.
#include "sweeps/validate_judge.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/error.h"
#include "harness/measurement.h"

namespace spillway {
namespace {

double median_of_values(std::vector<double> values) {
  return statistics_of(std::move(values)).median;
}

template <class Figure>
double median_executed(const ValidateRecord& record, const Figure& figure) {
  std::vector<double> values;
  for (const ValidateVisit& visit : record.visits)
    for (const StepTimes& step : visit.executed)
      values.push_back(figure(step));
  return median_of_values(std::move(values));
}

template <class Figure>
double mean_simulated(const ValidateRecord& record, const Figure& figure) {
  double sum = 0;
  for (const ValidateVisit& visit : record.visits)
    sum += figure(visit.simulated);
  return sum / static_cast<double>(record.visits.size());
}

double busy_of(const StepTimes& step, const std::string& kind) {
  const auto found = step.busy.find(kind);
  return found == step.busy.end() ? 0 : found->second;
}

void judge_steps(const ValidateRecord& record, Judged& judged) {
  std::vector<double> seconds, errors;
  for (const ValidateVisit& visit : record.visits)
    for (const StepTimes& step : visit.executed) {
      seconds.push_back(step.seconds);
      errors.push_back(step.seconds / visit.simulated.seconds - 1);
    }
  std::sort(seconds.begin(), seconds.end());
  std::sort(errors.begin(), errors.end());
  judged.executed = quantile(seconds, 0.5);
  judged.low = quantile(seconds, 0.25);
  judged.high = quantile(seconds, 0.75);
  judged.simulated = mean_simulated(record, [](const StepTimes& s) { return s.seconds; });
  judged.error_raw = judged.executed / record.calibrated.seconds - 1;
  judged.error = quantile(errors, 0.5);
  judged.even_low = (1 + quantile(errors, 0.25)) * record.calibrated.seconds;
  judged.even_high = (1 + quantile(errors, 0.75)) * record.calibrated.seconds;
}

void judge_transfers(const ValidateRecord& record, Judged& judged) {
  const auto exposed = [](const StepTimes& s) { return s.exposed; };
  judged.transfers = median_executed(record, [](const StepTimes& s) { return s.transfers; });
  judged.exposed_executed = median_executed(record, exposed);
  judged.exposed_simulated = mean_simulated(record, exposed);
  judged.exposed_allowed =
      std::max(exposed_of_transfers * judged.transfers, exposed_of_step * judged.executed);
  judged.exposed_fits =
      std::abs(judged.exposed_executed - judged.exposed_simulated) <= judged.exposed_allowed;
}

void judge_kinds(const ValidateRecord& record, Judged& judged) {
  std::set<std::string> kinds;
  for (const ValidateVisit& visit : record.visits) {
    for (const auto& [kind, seconds] : visit.simulated.busy)
      kinds.insert(kind);
    for (const StepTimes& step : visit.executed)
      for (const auto& [kind, seconds] : step.busy)
        kinds.insert(kind);
  }
  for (const std::string& kind : kinds) {
    const auto busy = [&](const StepTimes& step) { return busy_of(step, kind); };
    judged.busy_executed[kind] = median_executed(record, busy);
    judged.busy_simulated[kind] = mean_simulated(record, busy);
  }
}

bool comparable(const ValidateRecord& a, const ValidateRecord& b) {
  return a.workload == b.workload && (a.link.empty() || b.link.empty() || a.link == b.link);
}

}  // namespace

Judged judge(const ValidateRecord& record) {
  check(!record.visits.empty() && !record.visits.front().executed.empty(), "point ", record.label,
        " is judged before it has run");
  Judged judged;
  judge_steps(record, judged);
  judge_transfers(record, judged);
  judge_kinds(record, judged);
  judged.peak_fits = record.planned_bytes == record.changed_bytes;
  judged.live_fits = record.live_bytes <= record.planned_bytes;
  return judged;
}

std::vector<OrderedPair> ordered_pairs(const std::vector<ValidateRecord>& records,
                                       const std::vector<Judged>& judged) {
  std::vector<OrderedPair> pairs;
  for (size_t a = 0; a < records.size(); ++a)
    for (size_t b = 0; b < records.size(); ++b)
      if (a != b && comparable(records[a], records[b]) && judged[a].even_high < judged[b].even_low)
        pairs.push_back({a, b, records[a].calibrated.seconds < records[b].calibrated.seconds});
  return pairs;
}

Distribution distribution_of(const std::vector<double>& errors) {
  check(!errors.empty(), "the distribution of no errors");
  std::vector<double> sizes;
  for (const double error : errors)
    sizes.push_back(std::abs(error));
  const auto [low, high] = std::minmax_element(errors.begin(), errors.end());
  return {median_of_values(sizes), *std::max_element(sizes.begin(), sizes.end()), *low, *high};
}

}  // namespace spillway
