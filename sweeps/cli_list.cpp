// spillway list: what is compiled in. One table a kind; the human print and the JSON are two views
// of the same rows.
#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

#include "harness/error.h"
#include "offload/lhs_options.h"
#include "offload/policy.h"
#include "reports/published.h"
#include "sweeps/cli.h"
#include "sweeps/machines.h"
#include "sweeps/parse.h"
#include "sweeps/sweep_file.h"
#include "workloads/accounting.h"
#include "workloads/config.h"

namespace spillway {

namespace {

using nlohmann::json;

json model_rows() {
  json rows = json::array();
  for (const std::string& name : model_names()) {
    const ModelConfig config = load_model(name);
    const json of = config.proxy_of ? json(config.proxy_of->model) : json(nullptr);
    rows.push_back({{"name", name},
                    {"params_total", account(config, 1, 1).params_total},
                    {"layers", config.layers},
                    {"hidden_size", config.hidden_size},
                    {"intermediate_size", config.intermediate_size},
                    {"heads", config.heads},
                    {"kv_heads", config.kv_heads},
                    {"vocab_size", config.vocab_size},
                    {"micro_batch", config.micro_batch ? json(*config.micro_batch) : json(nullptr)},
                    {"seq", config.seq ? json(*config.seq) : json(nullptr)},
                    {"proxy_of", of}});
  }
  return rows;
}

json words(const std::string& list) {
  json result = json::array();
  std::stringstream parts(list);
  for (std::string word; std::getline(parts, word, ',');)
    result.push_back(word);
  return result;
}

json policy_rows() {
  json rows = json::array();
  for (const PolicyPreset& preset : policy_presets())
    rows.push_back({{"name", preset.name},
                    {"device", words(preset.device)},
                    {"offload", words(preset.offload)},
                    {"note", preset.note}});
  return rows;
}

json machine_rows() {
  json rows = json::array();
  for (const std::string& name : machine_names()) {
    const Machine machine = load_machine(name);
    json figures = json::object();
    int64_t assumed = 0;
    for (const auto& [key, figure] : machine.figures) {
      figures[key] = {{"value", figure.value},
                      {"source", figure.source},
                      {"assumed", figure.assumed},
                      {"date", figure.date.empty() ? json(nullptr) : json(figure.date)}};
      assumed += figure.assumed ? 1 : 0;
    }
    rows.push_back({{"name", name},
                    {"figures_total", machine.figures.size()},
                    {"figures_assumed", assumed},
                    {"figures", figures}});
  }
  return rows;
}

json sweep_rows() {
  json rows = json::array();
  for (const std::string& name : sweep_names()) {
    const Sweep sweep = load_sweep(name);
    json labels = json::array();
    for (const SweepPoint& point : sweep.points)
      labels.push_back(point.label);
    const auto simulated = std::count_if(
        sweep.points.begin(), sweep.points.end(),
        [](const SweepPoint& point) { return point.point.executor == ExecutorKind::sim; });
    rows.push_back({{"name", name},
                    {"title", sweep.headers.front().title},
                    {"points", sweep.points.size()},
                    {"simulated", simulated},
                    {"labels", labels}});
  }
  return rows;
}

// In the order in which they are asked; the settings among them last.
json rule_rows() {
  json rows = json::array();
  for (const LhsRuleInfo& rule : lhs_rule_table())
    rows.push_back({{"name", rule.name},
                    {"default", rule.on_by_default ? "on" : "off"},
                    {"needs", rule.needs},
                    {"meaning", rule.meaning}});
  return rows;
}

json number_or_null(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

json published_rows() {
  json rows = json::array();
  for (const Published& row : published_results())
    rows.push_back({{"id", row.id},
                    {"workload", row.workload},
                    {"label", row.label},
                    {"tflops_per_s_per_device", number_or_null(row.tflops_per_s_per_device)},
                    {"peak_hbm_gib", number_or_null(row.peak_hbm_gib)},
                    {"outcome", row.outcome.empty() ? json(nullptr) : json(row.outcome)},
                    {"source", row.source},
                    {"note", row.note}});
  return rows;
}

struct Listing {
  const char* name;
  json (*rows)();
  std::array<const char*, 6> columns;  // keys shown to people; null: no more
};

constexpr std::array kinds = std::to_array<Listing>({
    {"models", model_rows, {"name", "params_total", "layers", "micro_batch", "seq", "proxy_of"}},
    {"policies", policy_rows, {"name", "note", "device", "offload"}},
    {"lhs-rules", rule_rows, {"name", "default", "needs", "meaning"}},
    {"machines", machine_rows, {"name", "figures_total", "figures_assumed"}},
    {"sweeps", sweep_rows, {"name", "points", "simulated", "title"}},
    {"published",
     published_rows,
     {"id", "tflops_per_s_per_device", "peak_hbm_gib", "outcome", "label"}},
});

std::string cell(const json& value) {
  if (value.is_null()) return "-";
  if (value.is_string())
    return value.get_ref<const std::string&>().empty() ? "-" : value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const json& word : value)
    list += (list.empty() ? "" : ",") + word.get<std::string>();
  return list.empty() ? "-" : list;
}

// Columns as wide as their widest cell, numbers to the right.
void print_table(const Listing& kind, const json& rows) {
  std::vector<std::string> lines(rows.size() + 1);
  for (const char* key : kind.columns) {
    if (key == nullptr) break;
    std::vector<std::string> cells = {key};
    for (const json& row : rows)
      cells.push_back(cell(row[key]));
    size_t width = 0;
    for (const std::string& text : cells)
      width = std::max(width, text.size());
    const bool right = std::any_of(rows.begin(), rows.end(),
                                   [&](const json& row) { return row[key].is_number(); });
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string pad(width - cells[i].size(), ' ');
      lines[i] += (lines[i].empty() ? "" : "  ") + (right ? pad + cells[i] : cells[i] + pad);
    }
  }
  std::string table;
  for (const std::string& line : lines)
    table += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  write_text("-", table);
}

}  // namespace

int execute(const ListCommand& command) {
  std::string known;
  for (const Listing& kind : kinds) {
    known += text(known.empty() ? "" : ", ", kind.name);
    if (command.kind != kind.name) continue;
    if (command.json)
      write_json("-", kind.rows());
    else
      print_table(kind, kind.rows());
    return 0;
  }
  bad_value("list", command.kind, "one of " + known);
}

}  // namespace spillway
