// Result rows -> one report. A report states and never runs: what it says is in the rows and in the
// published results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/published.h"
#include "reports/row.h"
#include "reports/rows.h"

namespace spillway {

enum class Format : uint8_t { md, html, csv, json };

// Throws InputError listing the formats.
Format parse_format(const std::string& name);

std::string render_report(const std::vector<Row>& rows, Format format);

}  // namespace spillway
