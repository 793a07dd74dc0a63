// Tables and lists.
#include "reports/html_tables.h"

#include <set>

#include "harness/error.h"
#include "reports/story.h"

namespace spillway {

namespace {

using nlohmann::json;

struct Cell {
  std::string text;
  bool number = false;
};

std::string tag(const char* name, const Cell& cell, const std::string& unit = "") {
  const std::string below = unit.empty() ? "" : "<small>" + html_escape(unit) + "</small>";
  return text("<", name, cell.number ? " class=\"number\"" : "", ">", html_escape(cell.text), below,
              "</", name, ">");
}

std::string table_row(const std::vector<Cell>& cells, bool failed = false) {
  std::string out = failed ? "<tr class=\"failed\">" : "<tr>";
  for (const Cell& cell : cells)
    out += tag("td", cell);
  return out + "</tr>\n";
}

std::string table(const std::string& header, const std::string& rows) {
  return "<div class=\"scroll\"><table><thead><tr>" + header + "</tr></thead>\n<tbody>\n" + rows +
         "</tbody></table></div>\n";
}

std::string header_of(const std::vector<Cell>& cells) {
  std::string out;
  for (const Cell& cell : cells)
    out += tag("th", cell);
  return out;
}

bool is_number(const Column& column) {
  const std::string_view key = column.key;
  return key != "label" && key != "status";
}

std::string definitions(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out = "<dl>\n";
  for (const auto& [name, value] : entries)
    out += "<dt>" + html_escape(name) + "</dt><dd>" + html_escape(value) + "</dd>\n";
  return out + "</dl>\n";
}

std::string fates_of(const Row& row) {
  const auto summary = row.result.find("policy_summary");
  if (summary == row.result.end() || !summary->is_object()) return "";
  std::string rows;
  const json list = summary->value("rows", json::array());
  for (const json& entry : list) {
    const Row fate{"", entry, {}};
    rows += table_row({{text_at(fate, "name")},
                       {text_at(fate, "fate")},
                       {fixed(figure_at(fate, "tensors"), 0), true},
                       {byte_size(figure_at(fate, "bytes")), true}});
  }
  const std::string said = text_at(Row{"", *summary, {}}, "text");
  if (rows.empty() && said.empty()) return "";
  std::string out = "<details><summary>" + html_escape(row.label) + "</summary>\n";
  if (!said.empty()) out += "<pre>" + html_escape(said) + "</pre>\n";
  if (!rows.empty())
    out += table(header_of({{"activation"}, {"fate"}, {"tensors", true}, {"bytes a step", true}}),
                 rows);
  return out + "</details>\n";
}

}  // namespace

std::string html_results(View view, const Group& group) {
  std::vector<const Column*> shown = columns_of(view, group);
  if (view == View::costs) shown.insert(shown.begin(), columns().data());  // the label
  if (shown.size() < 2) return "";
  std::string header, rows;
  for (const Column* column : shown)
    header += tag("th", {column->title, is_number(*column)}, column->unit);
  for (const Row* row : group.rows) {
    std::vector<Cell> cells;
    for (const Column* column : shown)
      cells.push_back({cell(*column, *row, group), is_number(*column)});
    rows += table_row(cells, text_at(*row, "status") != "ok");
  }
  return table(header, rows);
}

std::string html_notes(const Group& group) {
  std::string out;
  for (const std::string& note : notes_on(group))
    out += "<li>" + html_escape(note) + "</li>\n";
  return out.empty() ? "" : "<ul class=\"notes\">\n" + out + "</ul>\n";
}

std::string html_differences(const Group& group) {
  std::string rows;
  for (const Difference& difference : differences_of(group))
    rows += table_row({{name_of(difference)},
                       {with_sign(difference.ours, 3), true},
                       {with_sign(difference.published, 3), true},
                       {effect_text(difference), true}});
  if (rows.empty()) return "";
  return table(header_of({{"step time of"},
                          {"ours, s", true},
                          {"published, s", true},
                          {"ours / published", true}}),
               rows);
}

std::string html_fates(const Group& group) {
  std::string out;
  for (const Row* row : group.rows)
    out += fates_of(*row);
  return out;
}

std::string html_hypotheses(const std::vector<Row>& rows) {
  std::string body;
  for (const StatedHypothesis& h : hypotheses_of(rows))
    body += table_row({{h.id}, {h.setting}, {h.status}, {h.text}});
  return body.empty() ? "" : table(header_of({{"id"}, {"setting"}, {"status"}, {"why"}}), body);
}

std::string html_sources(const std::vector<Row>& rows) {
  std::string body, sources;
  std::set<std::string> ids, listed;
  for (const Row& row : rows) {
    const std::optional<Published>& shown = row.published ? row.published : row.stands_for;
    if (!shown || !ids.insert(shown->id).second) continue;
    const Published& p = *shown;
    body += table_row({{p.id},
                       {significant(p.tflops_per_s_per_device, 4), true},
                       {fixed(p.peak_hbm_gib, 1), true},
                       {p.outcome},
                       {p.note}});
    if (!p.source.empty() && listed.insert(p.source).second)
      sources += "<p class=\"about\">Source: " + html_escape(p.source) + "</p>\n";
  }
  if (body.empty()) return "";
  const std::string header = header_of({{"published result"},
                                        {"TFLOPs/s/device", true},
                                        {"peak HBM, GiB", true},
                                        {"outcome"},
                                        {"note"}});
  return table(header, body) + sources;
}

std::string html_environment(const std::vector<Row>& rows) {
  std::string out;
  for (const Environment& environment : environments_of(rows))
    out += definitions(environment);
  return out;
}

std::string html_commands(const std::vector<Row>& rows) {
  std::string out;
  for (const Row& row : rows) {
    const std::string command = command_of(row);
    if (!command.empty())
      out += "<h3>" + html_escape(row.label) + "</h3><pre>" + html_escape(command) + "</pre>\n";
  }
  return out;
}

std::string html_method() { return definitions(method_notes()); }

}  // namespace spillway
