// Padding.
#include "reports/markdown_table.h"

#include <algorithm>

#include "reports/text.h"

namespace spillway {

namespace {

std::string padded(const std::string& cell, int64_t width, bool right) {
  const std::string space(static_cast<size_t>(std::max<int64_t>(0, width - characters(cell))), ' ');
  return right ? space + cell : cell + space;
}

std::string rule(int64_t width, bool right) {
  return std::string(static_cast<size_t>(width) + 1, '-') + (right ? ":" : "-");
}

}  // namespace

std::string print(const MarkdownTable& table) {
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

}  // namespace spillway
