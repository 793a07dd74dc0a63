// One subcommand a file. Each adds itself to the command line and, when chosen, sets `action`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sweeps/point.h"

namespace spillway {

using Action = std::function<int()>;  // returns the exit code

void add_list(CLI::App& app, Action& action);
void add_describe(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_sweep(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);

// Adds the options `names` (all of fields() when empty) to a subcommand; each parses into `point`.
void add_point_options(CLI::App& command, Point& point, const std::vector<std::string>& names = {});

// Writes to a file, or to stdout when `path` is "-". Throws InputError when the file can't be written.
void write_text(const std::string& path, const std::string& text);
// JSON on one line, which `report` reads too. What a run could not have is null in it, never NaN.
void write_json(const std::string& path, const nlohmann::json& object);

// 12345678 -> "11.77 MiB".
std::string bytes_text(double bytes);

}  // namespace spillway
