// Published results: reports/published/*.csv, one row a result, blank where nothing was published.
// The columns: id, workload, label, tflops_per_s_per_device, peak_hbm_gib, outcome, source, note.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/row.h"

namespace spillway {

// Reads one CSV text. A byte order mark and CRLF line ends are accepted; fields may be quoted, with
// commas, doubled quotes and line breaks inside; "2,669" in quotes is 2669. A figure that is not
// finite is blank and turns the outcome `ok` into `invalid`. Throws InputError naming `file` and
// line for anything else: a missing, unknown or repeated column, a wrong number of fields, a stray
// or unclosed quote, text that is not a number, an id that is empty or used twice.
std::vector<Published> parse_published(std::string_view file, std::string_view text);

// All published results compiled in, files in order of name, rows in order of the file.
const std::vector<Published>& published_results();

// Throws InputError listing the ids that exist.
const Published& find_published(std::string_view id);

}  // namespace spillway
