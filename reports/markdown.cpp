// The Markdown report: plain enough to be read in a terminal.
#include "harness/error.h"
#include "reports/columns.h"
#include "reports/formats.h"
#include "reports/markdown_table.h"
#include "reports/story.h"

namespace spillway {

namespace {

std::string heading(const Column& column) {
  const std::string unit = column.unit;
  return unit.empty() ? column.title : text(column.title, ", ", unit);
}

std::string view_table(View view, const Group& group) {
  std::vector<const Column*> shown = columns_of(view, group);
  if (view == View::costs) shown.insert(shown.begin(), columns().data());  // the label
  if (shown.size() < 2) return "";
  MarkdownTable table;
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
  MarkdownTable table{{{"difference of step times", "ours, s", "published, s", "ours / published"}},
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
