// Result rows from files: what `run --json` and sweeps write, one JSON object a line.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reports/row.h"

namespace spillway {

// Called with one sentence for what was dropped.
using Warn = std::function<void(const std::string&)>;

// Reads each path in turn: a directory means its results.jsonl, anything else is a file. A last
// line without line end that does not parse (a killed sweep) is dropped with a warning. Throws
// InputError naming file, line and key for a file that cannot be read, a line that is not a JSON
// object, a field that is missing or of a wrong type, a published id that does not exist.
std::vector<Row> read_rows(const std::vector<std::string>& paths, const Warn& warn);
// Warnings go to stderr.
std::vector<Row> read_rows(const std::vector<std::string>& paths);

// The row of one result object, joined with its published result. `where` ("results.jsonl:3") opens
// the message of the InputError thrown for a missing or mistyped field.
Row row_of(nlohmann::json result, const std::string& where);

// The fields of `run --json`, in the order of its documentation.
std::span<const char* const> result_fields();

}  // namespace spillway
