// Shipped machine files by name, others by path.
#include "sweeps/machines.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>

#include "harness/embedded.h"
#include "harness/error.h"

namespace spillway {

namespace {

std::string_view stem_of(std::string_view file) { return file.substr(0, file.rfind('.')); }

// Parsed once a process: what is compiled in does not change, and points by the thousand name it.
const Machine& shipped(const EmbeddedFile& file) {
  static std::mutex guard;
  static std::map<std::string_view, Machine> parsed;
  const std::lock_guard lock(guard);
  const auto found = parsed.find(file.name);
  if (found != parsed.end()) return found->second;
  return parsed.emplace(file.name, parse_machine(std::string(file.text), std::string(file.name)))
      .first->second;
}

}  // namespace

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_machines())
    names.emplace_back(stem_of(file.name));
  return names;
}

Machine load_machine(const std::string& name_or_path) {
  for (const EmbeddedFile& file : embedded_machines())
    if (stem_of(file.name) == name_or_path) return shipped(file);
  std::ifstream in(name_or_path);
  if (!in || std::filesystem::is_directory(name_or_path)) {
    std::string known;
    for (const std::string& name : machine_names())
      known += (known.empty() ? "" : ", ") + name;
    throw InputError(
        text("machine '", name_or_path, "': neither a file that can be read nor one of ", known));
  }
  return parse_machine(std::string(std::istreambuf_iterator<char>(in), {}), name_or_path);
}

}  // namespace spillway
