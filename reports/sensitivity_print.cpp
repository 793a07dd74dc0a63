// Sensitivity as Markdown, JSON and CSV.
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "reports/markdown_table.h"
#include "reports/sensitivity.h"

namespace spillway {

namespace {

using nlohmann::json;

// ---- Markdown

// Rate, error against published, change against the sweep as it is.
std::string cell_of(const SensitivityRow& row, const SweepSensitivity& sweep, bool as_it_is) {
  if (row.status != "ok") return row.status;
  const std::string rate = significant(row.tflops_per_s_per_device, 4);
  std::string said = row.fitted ? "fitted" : "";
  if (!row.fitted && row.published) said = with_sign(row.error_percent(), 1) + " %";
  if (!as_it_is && !row.fitted)
    said += text(said.empty() ? "" : ", ", "change ", with_sign(change_percent(row, sweep), 1));
  return said.empty() ? rate : text(rate, " (", said, ")");
}

std::string print_escaped(MarkdownTable table) {
  for (std::vector<std::string>& row : table.rows)
    for (std::string& cell : row)
      cell = markdown_escape(cell);
  return print(table) + "\n";
}

// Columns before and after those of the rows of the sweep.
MarkdownTable table_of_rows(const SweepSensitivity& sweep, const std::string& first) {
  MarkdownTable table{{{first, "tried", "fitted"}}, {false, false, true}};
  for (const SensitivityRow& row : sweep.base.rows) {
    table.rows.front().push_back(row.label);
    table.right.push_back(true);
  }
  for (const char* last : {"worst, %", "worst peak, %", "order", "contradicts"}) {
    table.rows.front().push_back(last);
    table.right.push_back(false);
  }
  return table;
}

void add_line(MarkdownTable& table, const SweepSensitivity& sweep, const std::string& first,
              const SensitivityVariation& variation) {
  std::vector<std::string> line{first, variation.label, fixed(variation.fitted, 4)};
  for (const SensitivityRow& row : variation.rows)
    line.push_back(cell_of(row, sweep, &variation == &sweep.base));
  line.resize(sweep.base.rows.size() + 3);
  const bool ran = variation.failure.empty();
  line.push_back(fixed(worst_error(variation), 1));
  line.push_back(fixed(worst_peak_error(variation), 1));
  line.push_back(!ran ? "" : order_kept(variation) ? "kept" : "broken");
  line.push_back(contradiction(variation, sweep));
  table.rows.push_back(std::move(line));
}

std::string hypotheses_section(const SweepSensitivity& sweep) {
  MarkdownTable table = table_of_rows(sweep, "hypothesis");
  add_line(table, sweep, "as it is", sweep.base);
  for (const SensitivityHypothesis& hypothesis : sweep.hypotheses)
    for (const SensitivityVariation& tried : hypothesis.alternatives)
      add_line(table, sweep, hypothesis.id, tried);
  std::string out = "### Alternatives of each hypothesis\n\n" + print_escaped(table);
  MarkdownTable verdicts{{{"hypothesis", "setting", "alternatives", "refuted", "verdict",
                           "status in the file", "agree"}},
                         {false, false, true, true, false, false, false}};
  for (const SensitivityHypothesis& hypothesis : sweep.hypotheses) {
    size_t refuted = 0;
    for (const SensitivityVariation& tried : hypothesis.alternatives)
      refuted += contradiction(tried, sweep).empty() ? 0 : 1;
    verdicts.rows.push_back(
        {hypothesis.id, hypothesis.setting, std::to_string(hypothesis.alternatives.size()),
         std::to_string(refuted), verdict_on(hypothesis, sweep), hypothesis.status,
         agrees_with_status(hypothesis, sweep) ? "yes" : "NO"});
  }
  return out + "### Verdicts\n\n" + print_escaped(verdicts);
}

std::string constants_section(const SweepSensitivity& sweep) {
  if (sweep.constants.empty()) return "";
  MarkdownTable table = table_of_rows(sweep, "constant");
  for (const SensitivityConstant& constant : sweep.constants)
    for (const SensitivityVariation& tried : constant.variations)
      add_line(table, sweep, text(constant.figure, " = ", plain(constant.value)), tried);
  return "### Assumed constants of the machine, one at a time\n\n"
         "Two other values each: the range that the machine file states, else 20 % either way, "
         "within what is legal.\n\n" +
         print_escaped(table);
}

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names)
    list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "none" : list;
}

std::string free_parameters(const SweepSensitivity& sweep) {
  std::vector<std::string> constants, hypotheses;
  for (const SensitivityConstant* constant : constants_in_use(sweep))
    constants.push_back(constant->figure);
  for (const SensitivityHypothesis& hypothesis : sweep.hypotheses)
    hypotheses.push_back(hypothesis.id);
  const size_t fitted = sweep.fitted_on.empty() ? 0 : 1;
  return text("### Free parameters: ", fitted + constants.size() + hypotheses.size(),
              "\n\n- fitted: ", fitted,
              fitted == 0 ? "" : text(" (matmul_efficiency, on \u201c", sweep.fitted_on, "\u201d)"),
              "\n- assumed constants that move at least one row: ", constants.size(), " (",
              list_of(constants), ")\n- hypotheses: ", hypotheses.size(), " (", list_of(hypotheses),
              ")\n\n");
}

std::string rules_text(const SweepSensitivity& sweep) {
  return text(
      "A variation contradicts when a published outcome is lost, when rows leave the "
      "published order, or when the rate or the peak of a predicted row is off by more than ",
      fixed(sweep.tolerance_percent, 1),
      " % (where that is more: by half a point more than the sweep itself, whose worst rate is off "
      "by ",
      worst_error(sweep.base) ? fixed(worst_error(sweep.base), 1) + " %" : "nothing published",
      "). A hypothesis is forced when every alternative contradicts, a choice when some "
      "does not; an alternative that contradicts is refuted. What the sweep fits is fitted "
      "again each time.\n\n");
}

std::string rates_section(const std::vector<SweepSensitivity>& sweeps) {
  MarkdownTable table{{{"matmul, TFLOP/s", "peak", "machine file"}}, {false, true, true}};
  for (const SweepSensitivity& sweep : sweeps) {
    table.rows.front().push_back(sweep.name);
    table.right.push_back(true);
  }
  for (size_t i = 0; i < sweeps.front().rates.size(); ++i) {
    const PrecisionRate& rate = sweeps.front().rates[i];
    std::vector<std::string> line{rate.precision, fixed(rate.peak / 1e12, 0),
                                  fixed(rate.machine / 1e12, 0)};
    for (const SweepSensitivity& sweep : sweeps)
      line.push_back(fixed(sweep.rates[i].fitted / 1e12, 0));
    table.rows.push_back(std::move(line));
  }
  std::vector<std::string> efficiencies{"matmul_efficiency", "1",
                                        fixed(sweeps.front().machine_efficiency, 4)};
  for (const SweepSensitivity& sweep : sweeps)
    efficiencies.push_back(sweep.base.fitted ? fixed(sweep.base.fitted, 4) : "not fitted");
  table.rows.push_back(std::move(efficiencies));
  return "## Fitted figures side by side\n\nMachine file: " +
         markdown_escape(sweeps.front().efficiency_source) + "\n\n" + print_escaped(table);
}

std::string transfers_section(const std::vector<SweepSensitivity>& sweeps) {
  std::string out;
  for (const SweepSensitivity& sweep : sweeps) {
    if (sweep.transfers.empty()) continue;
    MarkdownTable table = table_of_rows(sweep, "figure of");
    add_line(table, sweep, sweep.name, sweep.base);
    for (const SensitivityVariation& transfer : sweep.transfers)
      add_line(table, sweep, transfer.of, transfer);
    out += "### " + markdown_escape(sweep.name) + " with figures fitted elsewhere\n\n" +
           print_escaped(table);
  }
  return out;
}

std::string sensitivity_markdown(const std::vector<SweepSensitivity>& sweeps) {
  std::string out = "# Sensitivity\n\n";
  for (const SweepSensitivity& sweep : sweeps)
    out += "## " + markdown_escape(sweep.name) + "\n\n" + rules_text(sweep) +
           hypotheses_section(sweep) + constants_section(sweep) + free_parameters(sweep);
  return out + rates_section(sweeps) + transfers_section(sweeps);
}

// ---- JSON and CSV

json number_or_null(Number value) { return value ? json(*value) : json(nullptr); }

json variation_json(const SensitivityVariation& variation, const SweepSensitivity& sweep) {
  json rows = json::array();
  for (const SensitivityRow& row : variation.rows)
    rows.push_back({{"label", row.label},
                    {"status", row.status},
                    {"tflops_per_s_per_device", number_or_null(row.tflops_per_s_per_device)},
                    {"published", number_or_null(row.published)},
                    {"fitted", row.fitted},
                    {"error_percent", number_or_null(row.error_percent())},
                    {"change_percent", number_or_null(change_percent(row, sweep))},
                    {"peak_hbm_bytes", number_or_null(row.peak_hbm_bytes)}});
  const std::string why = contradiction(variation, sweep);
  return {{"of", variation.of},
          {"label", variation.label},
          {"fitted", number_or_null(variation.fitted)},
          {"order_kept", order_kept(variation)},
          {"worst_error_percent", number_or_null(worst_error(variation))},
          {"worst_peak_error_percent", number_or_null(worst_peak_error(variation))},
          {"contradiction", why.empty() ? json(nullptr) : json(why)},
          {"rows", rows}};
}

json variations_json(const std::vector<SensitivityVariation>& variations,
                     const SweepSensitivity& sweep) {
  json list = json::array();
  for (const SensitivityVariation& variation : variations)
    list.push_back(variation_json(variation, sweep));
  return list;
}

json free_parameters_json(const SweepSensitivity& sweep) {
  json constants = json::array(), hypotheses = json::array();
  for (const SensitivityConstant* constant : constants_in_use(sweep))
    constants.push_back(constant->figure);
  for (const SensitivityHypothesis& hypothesis : sweep.hypotheses)
    hypotheses.push_back(hypothesis.id);
  json fitted = json::array();
  if (!sweep.fitted_on.empty()) fitted.push_back("matmul_efficiency");
  return {{"fitted", fitted}, {"constants", constants}, {"hypotheses", hypotheses}};
}

json sweep_json(const SweepSensitivity& sweep) {
  json hypotheses = json::array(), constants = json::array(), rates = json::array();
  for (const SensitivityHypothesis& hypothesis : sweep.hypotheses)
    hypotheses.push_back({{"id", hypothesis.id},
                          {"setting", hypothesis.setting},
                          {"status", hypothesis.status},
                          {"verdict", verdict_on(hypothesis, sweep)},
                          {"agrees", agrees_with_status(hypothesis, sweep)},
                          {"alternatives", variations_json(hypothesis.alternatives, sweep)}});
  for (const SensitivityConstant& constant : sweep.constants)
    constants.push_back({{"figure", constant.figure},
                         {"value", constant.value},
                         {"source", constant.source},
                         {"default_range", constant.default_range},
                         {"variations", variations_json(constant.variations, sweep)}});
  for (const PrecisionRate& rate : sweep.rates)
    rates.push_back({{"precision", rate.precision},
                     {"peak", rate.peak},
                     {"machine", rate.machine},
                     {"fitted", rate.fitted}});
  return {{"name", sweep.name},
          {"tolerance_percent", sweep.tolerance_percent},
          {"base", variation_json(sweep.base, sweep)},
          {"hypotheses", hypotheses},
          {"constants", constants},
          {"free_parameters", free_parameters_json(sweep)},
          {"rates", rates},
          {"transfers", variations_json(sweep.transfers, sweep)}};
}

std::string sensitivity_json(const std::vector<SweepSensitivity>& sweeps) {
  json list = json::array();
  for (const SweepSensitivity& sweep : sweeps)
    list.push_back(sweep_json(sweep));
  return json{{"version", 1}, {"sweeps", list}}.dump() + "\n";
}

void add_csv(std::string& out, const SweepSensitivity& sweep, const char* kind,
             const SensitivityVariation& variation) {
  for (const SensitivityRow& row : variation.rows) {
    const std::string cells[] = {sweep.name,
                                 kind,
                                 variation.of,
                                 variation.label,
                                 fixed(variation.fitted, 6),
                                 row.label,
                                 row.status,
                                 fixed(row.tflops_per_s_per_device, 3),
                                 fixed(row.published, 1),
                                 row.fitted ? "" : fixed(row.error_percent(), 4),
                                 fixed(change_percent(row, sweep), 4),
                                 order_kept(variation) ? "yes" : "no",
                                 contradiction(variation, sweep)};
    std::string line;
    for (const std::string& cell : cells)
      line += (line.empty() ? "" : ",") + csv_field(cell);
    out += line + "\n";
  }
}

std::string sensitivity_csv(const std::vector<SweepSensitivity>& sweeps) {
  std::string out =
      "sweep,kind,of,tried,fitted,row,status,tflops_per_s_per_device,published,error_percent,"
      "change_percent,order_kept,contradiction\n";
  for (const SweepSensitivity& sweep : sweeps) {
    add_csv(out, sweep, "base", sweep.base);
    for (const SensitivityHypothesis& hypothesis : sweep.hypotheses)
      for (const SensitivityVariation& tried : hypothesis.alternatives)
        add_csv(out, sweep, "hypothesis", tried);
    for (const SensitivityConstant& constant : sweep.constants)
      for (const SensitivityVariation& tried : constant.variations)
        add_csv(out, sweep, "constant", tried);
    for (const SensitivityVariation& transfer : sweep.transfers)
      add_csv(out, sweep, "transfer", transfer);
  }
  return out;
}

}  // namespace

std::string render_sensitivity(const std::vector<SweepSensitivity>& sweeps, Format format) {
  switch (format) {
    case Format::md:
      return sensitivity_markdown(sweeps);
    case Format::json:
      return sensitivity_json(sweeps);
    case Format::csv:
      return sensitivity_csv(sweeps);
    case Format::html:
      break;
  }
  throw InputError("--format: found 'html', expected one of md, json, csv");
}

}  // namespace spillway
