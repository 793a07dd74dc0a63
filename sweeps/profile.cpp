// Reading a profile and holding it against a program.
#include "sweeps/profile.h"

#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "harness/error.h"

namespace spillway {

std::map<std::string, double> load_profile(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw InputError(text("--profile: ", file, ": cannot be read"));
  const nlohmann::json result = nlohmann::json::parse(in, nullptr, false);
  const char* const expected = "expected a result of `run --json` with op_mean_seconds";
  if (!result.is_object() || !result.contains("op_mean_seconds") ||
      !result["op_mean_seconds"].is_object())
    throw InputError(text("--profile: ", file, ": found none, ", expected));
  std::map<std::string, double> profile;
  for (const auto& [name, seconds] : result["op_mean_seconds"].items()) {
    if (!seconds.is_number() || !(seconds.get<double>() >= 0))
      throw InputError(text("--profile: ", file, ": ", name, ": found ", seconds.dump(),
                            ", expected seconds of at least 0"));
    profile[name] = seconds.get<double>();
  }
  if (profile.empty()) throw InputError(text("--profile: ", file, ": found no op, ", expected));
  return profile;
}

void match_profile(const std::map<std::string, double>& profile, const Program& program,
                   const std::string& file, std::vector<std::string>& warnings) {
  std::set<std::string> own;
  size_t lacking = 0;
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops) {
      own.insert(segment.name + "." + op.name);
      lacking += profile.count(segment.name + "." + op.name) == 0 ? 1 : 0;
    }
  std::string foreign;
  size_t count = 0;
  for (const auto& [name, seconds] : profile)
    if (own.count(name) == 0 && ++count <= 5) foreign += (count == 1 ? "" : ", ") + name;
  if (count > 0)
    throw InputError(text("--profile: ", file, ": found ", count, " ops that this program lacks (",
                          foreign, count > 5 ? ", ..." : "",
                          "), expected a result of the same program"));
  if (lacking > 0)
    warnings.push_back(text("--profile: ", lacking, " of ", own.size(),
                            " ops are not in the profile; they last as without it"));
}

}  // namespace spillway
