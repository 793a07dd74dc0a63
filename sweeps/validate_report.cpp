// What a validation found.
#include "sweeps/validate_report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "harness/error.h"

namespace spillway {
namespace {

using nlohmann::json;

json point_json(const ValidateRecord& record, const Judged& judged) {
  json busy = json::object(), visits = json::array();
  for (const auto& [kind, executed] : judged.busy_executed)
    busy[kind] = {{"executed", executed}, {"simulated", judged.busy_simulated.at(kind)}};
  for (const ValidateVisit& visit : record.visits)
    visits.push_back({{"slowness", visit.slowness}, {"steps", visit.executed.size()}});
  return {{"label", record.label},
          {"link_bytes_per_second", record.link_bytes_per_second},
          {"executed", {{"median", judged.executed}, {"low", judged.low}, {"high", judged.high}}},
          {"executed_even", {{"low", judged.even_low}, {"high", judged.even_high}}},
          {"simulated", judged.simulated},
          {"simulated_calibrated", record.calibrated.seconds},
          {"error_raw", judged.error_raw},
          {"error", judged.error},
          {"visits", visits},
          {"transfer_seconds", judged.transfers},
          {"exposed_executed", judged.exposed_executed},
          {"exposed_simulated", judged.exposed_simulated},
          {"exposed_allowed", judged.exposed_allowed},
          {"exposed_fits", judged.exposed_fits},
          {"planned_peak_bytes", record.planned_bytes},
          {"changed_bytes", record.changed_bytes},
          {"live_bytes", record.live_bytes},
          {"busy", busy}};
}

json distribution_json(const std::vector<double>& errors) {
  const Distribution d = distribution_of(errors);
  return {{"median", d.median}, {"worst", d.worst}, {"low", d.low}, {"high", d.high}};
}

json order_json(const std::vector<ValidateRecord>& records, const std::vector<Judged>& judged) {
  json wrong = json::array();
  const std::vector<OrderedPair> pairs = ordered_pairs(records, judged);
  for (const OrderedPair& pair : pairs)
    if (!pair.right)
      wrong.push_back(
          {{"faster", records[pair.faster].label},
           {"slower", records[pair.slower].label},
           {"executed", {judged[pair.faster].even_high, judged[pair.slower].even_low}},
           {"simulated",
            {records[pair.faster].calibrated.seconds, records[pair.slower].calibrated.seconds}}});
  return {{"pairs", pairs.size()}, {"wrong", wrong}};
}

// How many of the points do not hold, and of how many.
template <class Holds>
json all_hold(const char* limit, const std::vector<Judged>& judged, const Holds& holds) {
  size_t held = 0;
  for (const Judged& point : judged)
    held += holds(point);
  return {{"limit", limit},
          {"figure", text(held, " of ", judged.size())},
          {"passed", held == judged.size()}};
}

json at_most(const char* limit, double figure, double most) {
  char shown[32];
  std::snprintf(shown, sizeof shown, "%.2f %%", 100 * figure);
  return {{"limit", limit}, {"figure", shown}, {"passed", figure <= most}};
}

json limits_json(const json& normalised, const json& order, const std::vector<Judged>& judged) {
  const size_t pairs = order["pairs"], wrong = order["wrong"].size();
  return {at_most("median error of step time, normalised, at most 5 %", normalised["median"],
                  median_limit),
          at_most("worst error of step time, normalised, at most 15 %", normalised["worst"],
                  worst_limit),
          all_hold("exposed transfer time within 15 % of transfer time or 1 % of the step", judged,
                   [](const Judged& j) { return j.exposed_fits; }),
          {{"limit", "order right wherever interquartile ranges do not overlap"},
           {"figure", text(pairs - wrong, " of ", pairs, " pairs")},
           {"passed", wrong == 0}},
          all_hold("planned peak equals the highest byte changed", judged,
                   [](const Judged& j) { return j.peak_fits; }),
          all_hold("simulated live bytes stay under the planned peak", judged,
                   [](const Judged& j) { return j.live_fits; })};
}

__attribute__((format(printf, 2, 3))) void add_line(std::string& out, const char* format, ...) {
  char buffer[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  out += buffer;
  out += '\n';
}

double real(const json& value) { return value.get<double>(); }
const char* yes(bool right) { return right ? "" : "  NOT"; }

void add_point(std::string& out, const json& point) {
  add_line(out, "%s", point["label"].get<std::string>().c_str());
  const json& executed = point["executed"];
  const double median = real(executed["median"]);
  add_line(out,
           "  step      executed %9.4f s (quartiles %.4f to %.4f), simulated %9.4f s: error raw "
           "%+6.2f %%, normalised %+6.2f %%",
           median, real(executed["low"]), real(executed["high"]), real(point["simulated"]),
           100 * real(point["error_raw"]), 100 * real(point["error"]));
  std::string paces;
  for (const json& visit : point["visits"])
    paces += text(paces.empty() ? "" : ", ", real(visit["slowness"]));
  add_line(out, "  reference %s x its time when calibrated", paces.c_str());
  if (real(point["transfer_seconds"]) > 0)
    add_line(out,
             "  transfers %9.4f s at %.3f GB/s, exposed: executed %.4f s, simulated %.4f s, within "
             "%.4f s%s",
             real(point["transfer_seconds"]), real(point["link_bytes_per_second"]) / 1e9,
             real(point["exposed_executed"]), real(point["exposed_simulated"]),
             real(point["exposed_allowed"]), yes(point["exposed_fits"]));
  add_line(out, "  memory    planned %lld bytes, changed %lld, live %lld%s",
           point["planned_peak_bytes"].get<long long>(), point["changed_bytes"].get<long long>(),
           point["live_bytes"].get<long long>(),
           yes(point["planned_peak_bytes"] == point["changed_bytes"]));
}

// Kinds that take a hundredth of the step or more, executed or simulated.
void add_kinds(std::string& out, const json& point) {
  const double step = real(point["executed"]["median"]);
  for (const auto& [kind, busy] : point["busy"].items()) {
    const double executed = real(busy["executed"]), simulated = real(busy["simulated"]);
    if (std::max(executed, simulated) < 0.01 * step) continue;
    add_line(out, "    %-24s executed %8.4f s, simulated %8.4f s, %+7.4f s (%+.1f %% of the step)",
             kind.c_str(), executed, simulated, executed - simulated,
             100 * (executed - simulated) / step);
  }
}

void add_distribution(std::string& out, const char* name, const json& d) {
  add_line(out, "%-12s median %.2f %%, worst %.2f %%, from %+.2f to %+.2f %%", name,
           100 * real(d["median"]), 100 * real(d["worst"]), 100 * real(d["low"]),
           100 * real(d["high"]));
}

}  // namespace

json validation_json(const std::vector<ValidateRecord>& records) {
  std::vector<Judged> judged;
  std::vector<double> raw, normalised;
  json points = json::array();
  for (const ValidateRecord& record : records) {
    judged.push_back(judge(record));
    raw.push_back(judged.back().error_raw);
    normalised.push_back(judged.back().error);
    points.push_back(point_json(record, judged.back()));
  }
  json result = {
      {"points", points},
      {"errors", {{"raw", distribution_json(raw)}, {"normalised", distribution_json(normalised)}}},
      {"order", order_json(records, judged)}};
  result["limits"] = limits_json(result["errors"]["normalised"], result["order"], judged);
  result["passed"] = true;
  for (const json& limit : result["limits"])
    if (!limit["passed"].get<bool>()) result["passed"] = false;
  return result;
}

std::string validation_text(const json& validation) {
  std::string out;
  for (const json& point : validation["points"]) {
    add_point(out, point);
    add_kinds(out, point);
  }
  add_line(out, "\nerrors of step time over %zu points", validation["points"].size());
  add_distribution(out, "  raw", validation["errors"]["raw"]);
  add_distribution(out, "  normalised", validation["errors"]["normalised"]);
  for (const json& pair : validation["order"]["wrong"])
    add_line(out, "order wrong: executed %s before %s; simulated %.4f s and %.4f s",
             pair["faster"].get<std::string>().c_str(), pair["slower"].get<std::string>().c_str(),
             real(pair["simulated"][0]), real(pair["simulated"][1]));
  for (const json& limit : validation["limits"])
    add_line(out, "%s  %s: %s", limit["passed"].get<bool>() ? "pass" : "FAIL",
             limit["limit"].get<std::string>().c_str(), limit["figure"].get<std::string>().c_str());
  return out;
}

}  // namespace spillway
