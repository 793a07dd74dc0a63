// The JSON report.
#include "reports/formats.h"
#include "reports/rows.h"

namespace spillway {

namespace {

using nlohmann::json;

json figure_or_null(const std::optional<double>& figure) {
  return figure ? json(*figure) : json(nullptr);
}
json text_or_null(const std::string& value) { return value.empty() ? json(nullptr) : json(value); }

json published_object(const std::optional<Published>& published) {
  if (!published) return nullptr;
  return {{"tflops_per_s_per_device", figure_or_null(published->tflops_per_s_per_device)},
          {"peak_hbm_gib", figure_or_null(published->peak_hbm_gib)},
          {"outcome", text_or_null(published->outcome)},
          {"source", text_or_null(published->source)}};
}

json row_object(const Row& row) {
  json object = row.result;
  for (const char* key : result_fields())
    if (!object.contains(key)) object[key] = nullptr;
  object["label"] = row.label;
  object["published"] = published_object(row.published);
  object["stands_for"] = published_object(row.stands_for);
  return object;
}

}  // namespace

std::string render_json(const std::vector<Row>& rows) {
  json report = {{"version", 1}, {"rows", json::array()}};
  for (const Row& row : rows)
    report["rows"].push_back(row_object(row));
  // Numbers that are not finite are printed as null.
  return report.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace spillway
