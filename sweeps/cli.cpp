// What the subcommands share.
#include "sweeps/cli.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "harness/error.h"

namespace spillway {

void add_point_options(CLI::App& command, Point& point, const std::vector<std::string>& names) {
  for (const Field& field : fields()) {
    if (!names.empty() && std::find(names.begin(), names.end(), field.name) == names.end()) continue;
    // InputError passes through CLI11 untouched, so the message is the same as in a sweep file.
    const auto parse = [&field, &point](const CLI::results_t& values) {
      field.parse(point, values.front());
      return true;
    };
    const std::string option = std::string("--") + field.name;
    CLI::Option* added = command.add_option(option, parse, field.help);
    added->type_name(field.value)->expected(1);
    const std::string value = field.print(point);
    if (field.is_flag) added->expected(0, 1)->default_str("on");
    else if (!value.empty()) added->default_str(value);
  }
}

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    if (!std::cout) throw InputError("stdout: cannot be written");
    return;
  }
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw InputError(spillway::text(path, ": cannot be written"));
}

void write_json(const std::string& path, const nlohmann::json& object) {
  write_text(path, object.dump() + "\n");
}

std::string bytes_text(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, unit == 0 ? "%.0f %s" : "%.3f %s", bytes, units[unit]);
  return buffer;
}

}  // namespace spillway
