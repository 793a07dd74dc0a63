// The Markdown report: plain enough to be read in a terminal.
#include <algorithm>

#include "harness/error.h"
#include "reports/columns.h"
#include "reports/formats.h"
#include "reports/story.h"

namespace spillway {

namespace {

struct Table {
  std::vector<std::vector<std::string>> rows;  // the first is the header
  std::vector<bool> right;                     // per column: numbers stand at the right
};

std::string padded(const std::string& cell, int64_t width, bool right) {
  const std::string space(static_cast<size_t>(std::max<int64_t>(0, width - characters(cell))), ' ');
  return right ? space + cell : cell + space;
}

std::string rule(int64_t width, bool right) {
  return std::string(static_cast<size_t>(width) + 1, '-') + (right ? ":" : "-");
}

std::string print(const Table& table) {
  std::vector<int64_t> widths(table.right.size(), 3);
  for (const auto& row : table.rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], characters(row[i]));
  std::string out;
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i)
      out += "| " + padded(row[i], widths[i], table.right[i]) + " ";
    out += "|\n";
    if (&row != &table.rows.front()) continue;
    for (size_t i = 0; i < row.size(); ++i)
      out += "|" + rule(widths[i], table.right[i]);
    out += "|\n";
  }
  return out;
}

std::string heading(const Column& column) {
  const std::string unit = column.unit;
  return unit.empty() ? column.title : text(column.title, ", ", unit);
}

std::string view_table(View view, const Group& group) {
  std::vector<const Column*> shown = columns_of(view, group);
  if (view == View::costs) shown.insert(shown.begin(), columns().data());  // the label
  if (shown.size() < 2) return "";
  Table table;
  table.rows.emplace_back();
  for (const Column* column : shown) {
    table.rows.back().push_back(markdown_escape(heading(*column)));
    table.right.push_back(!column->text || std::string(column->key) == "error");
  }
  for (const Row* row : group.rows) {
    table.rows.emplace_back();
    for (const Column* column : shown)
      table.rows.back().push_back(markdown_escape(cell(*column, *row, group)));
  }
  return print(table) + "\n";
}

std::string difference_table(const Group& group) {
  const std::vector<Difference> differences = differences_of(group);
  if (differences.empty()) return "";
  Table table{{{"difference of step times", "ours, s", "published, s", "ours / published"}},
              {false, true, true, true}};
  for (const Difference& difference : differences)
    table.rows.push_back({markdown_escape(name_of(difference)), with_sign(difference.ours, 3),
                          with_sign(difference.published, 3), effect_text(difference)});
  return print(table) + "\n";
}

// A list: the sentences are too long for a table that is read in a terminal.
std::string hypothesis_list(const std::vector<Row>& rows) {
  std::string out;
  for (const StatedHypothesis& h : hypotheses_of(rows))
    out += text("- **", markdown_escape(h.id), "** ", markdown_escape(h.setting), " (",
                markdown_escape(h.status), "): ", markdown_escape(h.text), "\n");
  return out.empty() ? "" : "## Hypotheses\n\n" + out;
}

std::string section(const Group& group) {
  std::string out = "## " + markdown_escape(title_of(group)) + "\n\n";
  out += view_table(View::rates, group);
  out += view_table(View::costs, group);
  out += difference_table(group);
  for (const std::string& note : notes_on(group))
    out += "- " + markdown_escape(note) + "\n";
  return out + "\n";
}

}  // namespace

std::string render_markdown(const std::vector<Row>& rows) {
  const std::vector<Group> groups = groups_of(rows);
  std::string out = "# Spillway report\n\n";
  for (const std::string& sentence : headline(groups))
    out += markdown_escape(sentence) + "\n\n";
  for (const Group& group : groups)
    out += section(group);
  return out + hypothesis_list(rows);
}

}  // namespace spillway
