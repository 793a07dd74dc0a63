// What a point reads from files of the user.
#include "sweeps/input_digest.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "sweeps/link.h"
#include "sweeps/machines.h"
#include "workloads/config.h"

namespace spillway {

namespace {

// A config of more is refused when it is loaded; a checkpoint given by mistake is not read through.
constexpr int64_t max_digested_bytes = int64_t{16} << 20;

// Offset basis and prime of 64-bit FNV-1a (draft-eastlake-fnv).
std::string fnv1a(std::ifstream& in) {
  uint64_t hash = 0xcbf29ce484222325;
  int64_t left = max_digested_bytes;
  for (std::istreambuf_iterator<char> byte(in), end; byte != end && left > 0; ++byte, --left)
    hash = (hash ^ static_cast<unsigned char>(*byte)) * 0x100000001b3;
  char hex[17];
  std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(hash));
  return hex;
}

bool is_one_of(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

// A pipe is left alone: what is read here would be missing when the point runs.
const std::string& InputDigests::of_file(const std::string& path) {
  const auto [found, is_new] = by_path_.emplace(path, "");
  std::error_code ignored;
  if (is_new && std::filesystem::is_regular_file(path, ignored))
    if (std::ifstream in(path, std::ios::binary); in) found->second = fnv1a(in);
  return found->second;
}

std::string InputDigests::of(const Point& point) {
  static const std::vector<std::string> models = model_names(), machines = machine_names();
  std::string all;
  const auto add = [&](const char* what, const std::string& name,
                       const std::vector<std::string>& shipped) {
    if (name.empty() || is_one_of(shipped, name)) return;
    if (const std::string& digest = of_file(name); !digest.empty())
      all += std::string(all.empty() ? "" : ", ") + what + " " + digest;
  };
  add("model", point.model, models);
  add("machine", point.machine, machines);
  add("profile", point.profile, {});
  if (!point.link.empty()) add("link", parse_link_option(point.link).machine, machines);
  return all;
}

}  // namespace spillway
