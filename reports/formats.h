// One function a format; report.cpp has the table.
#pragma once

#include <string>
#include <vector>

#include "reports/row.h"

namespace spillway {

// Groups as padded tables, readable in a terminal, with notes, differences and hypotheses.
std::string render_markdown(const std::vector<Row>& rows);
// All columns of columns.h, one line a row (RFC 4180 quoting, LF line ends), groups as in Markdown.
std::string render_csv(const std::vector<Row>& rows);
// {"version": 1, "rows": [{"label", "published": {...} or null, all fields of `run --json`}]}, rows
// in the order given. A field that a row lacks is null.
std::string render_json(const std::vector<Row>& rows);
// One self-contained file: inline style and SVG, no script, nothing loaded from elsewhere.
std::string render_html(const std::vector<Row>& rows);

}  // namespace spillway
