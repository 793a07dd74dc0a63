// The CSV report.
#include <charconv>

#include "reports/columns.h"
#include "reports/formats.h"

namespace spillway {

namespace {

// Twelve digits: more than is known of any figure, without the noise of units converted.
std::string exact(Number value) {
  if (!value) return "";
  char buffer[64];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, *value, std::chars_format::general, 12);
  return std::string(buffer, result.ptr);
}

std::string csv_line(const Row& row, const Group& group) {
  std::string line;
  for (const Column& column : columns()) {
    if (&column != columns().data()) line += ',';
    line += column.text ? csv_field(column.text(row, group)) : exact(figure_of(column, row, group));
  }
  return line + '\n';
}

}  // namespace

std::string render_csv(const std::vector<Row>& rows) {
  std::string out;
  for (const Column& column : columns())
    out += (out.empty() ? "" : ",") + std::string(column.key);
  out += '\n';
  for (const Group& group : groups_of(rows))
    for (const Row* row : group.rows)
      out += csv_line(*row, group);
  return out;
}

}  // namespace spillway
