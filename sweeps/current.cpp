// The rows of a sweep file as it says now.
#include "sweeps/current.h"

#include <map>
#include <string>

#include "reports/rows.h"

namespace spillway {

void set_heading(nlohmann::json& result, const SweepPoint& point, const Sweep& sweep) {
  using nlohmann::json;
  const SweepHeader& header = sweep.header_of(point);
  json hypotheses = json::array();
  for (const Hypothesis& h : header.hypotheses)
    hypotheses.push_back(
        {{"id", h.id}, {"setting", h.setting}, {"status", h.status}, {"text", h.text}});
  result["label"] = point.label;
  const auto id_or_null = [](const std::string& id) {
    return id.empty() ? json(nullptr) : json(id);
  };
  result["published"] = id_or_null(point.published);
  result["stands_for"] = id_or_null(point.stands_for);
  result["sweep"] = {{"name", header.name}, {"title", header.title}, {"hypotheses", hypotheses}};
}

std::vector<Row> current_rows(const Sweep& sweep, const std::vector<Row>& rows) {
  std::map<std::string, const SweepPoint*> points;
  for (const SweepPoint& point : sweep.points)
    points.emplace(key_of(point), &point);
  std::vector<Row> current;
  for (const Row& row : rows) {
    const auto found = points.find(row.result.at("key").get<std::string>());
    if (found == points.end()) continue;
    nlohmann::json result = row.result;
    set_heading(result, *found->second, sweep);
    current.push_back(row_of(std::move(result), found->second->label));
  }
  return current;
}

}  // namespace spillway
