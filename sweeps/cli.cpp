// What the subcommands share.
#include "sweeps/cli.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "harness/error.h"

namespace spillway {

void flush_stdout() {
  std::cout << std::flush;
  // printf's buffer too; an error of an earlier write stays set.
  if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw InputError("stdout: cannot be written");
}

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text;
    return flush_stdout();
  }
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw InputError(spillway::text(path, ": cannot be written"));
}

std::function<void(const std::string&)> progress_on_stderr() {
  return [begin = std::chrono::steady_clock::now()](const std::string& what) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    std::cerr << text(static_cast<int>(passed.count()), " s: ", what, "\n");
  };
}

void require_writable(const std::string& path) {
  if (path == "-" || path.empty()) return;
  if (!std::ofstream(path, std::ios::binary | std::ios::app))
    throw InputError(text(path, ": cannot be written"));
}

void write_json(const std::string& path, const nlohmann::json& object) {
  write_text(path, object.dump() + "\n");
}

std::string bytes_text(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit)
    bytes /= 1024;
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, unit == 0 ? "%.0f %s" : "%.3f %s", bytes, units[unit]);
  return buffer;
}

}  // namespace spillway
