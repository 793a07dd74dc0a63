// The small cases under compute-sanitizer, where the toolkit has it.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "harness/error.h"
#include "tests/gpu/part.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// On the PATH, or in a toolkit's usual place.
std::string find_sanitizer() {
  std::vector<fs::path> places;
  const char* path = std::getenv("PATH");
  std::istringstream directories(path != nullptr ? path : "");
  for (std::string directory; std::getline(directories, directory, ':');)
    places.emplace_back(directory);
  for (const char* home : std::initializer_list<const char*>{
           std::getenv("CUDA_HOME"), std::getenv("CUDA_PATH"), "/usr/local/cuda"})
    if (home != nullptr) places.push_back(fs::path(home) / "bin");
  for (const fs::path& place : places) {
    std::error_code ignored;
    if (fs::exists(place / "compute-sanitizer", ignored))
      return (place / "compute-sanitizer").string();
  }
  return "";
}

struct Output {
  int code = 0;
  std::string text;
};

Output output_of(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw RunError("cannot run " + command);
  Output output;
  std::array<char, 4096> part{};
  while (const size_t count = std::fread(part.data(), 1, part.size(), pipe))
    output.text.append(part.data(), count);
  const int status = ::pclose(pipe);
  output.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

Finding check_by(const std::string& tool, const std::string& part, const Effort& effort) {
  Finding finding;
  const std::string sanitizer = find_sanitizer();
  if (sanitizer.empty()) {
    finding.verdict = Verdict::skipped;
    finding.reason = "no compute-sanitizer";
    return finding;
  }
  constexpr int error_code = 9;
  const auto left = std::chrono::duration<double>(effort.end - std::chrono::steady_clock::now());
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const Output output =
      output_of(text(sanitizer, " --tool ", tool, " --error-exitcode ", error_code, " '", self,
                     "' ", part, " --small --seconds ", left.count()));
  finding.figures = {{"exit_code", output.code}};
  if (output.code == 0) return finding;
  finding.figures["output"] = output.text.substr(0, 4000);
  const bool refused = output.text.find("Device not supported") != std::string::npos;
  if (refused) {
    finding.verdict = Verdict::skipped;
    finding.reason = "compute-sanitizer does not work on this machine";
  } else {
    finding.fail(text(tool, ": exit code ", output.code));
  }
  return finding;
}

}  // namespace

Finding check_memory_tool(const Subject&, const Effort& effort) {
  Finding finding = check_by("memcheck", "ops", effort);
  if (finding.verdict == Verdict::pass && !effort.over()) {
    Finding models = check_by("memcheck", "identity", effort);
    finding.figures["models"] = models.figures;
    if (models.verdict == Verdict::fail) finding.fail("a tiny model under " + models.reason);
  }
  return finding;
}

Finding check_race_tool(const Subject&, const Effort& effort) {
  return check_by("racecheck", "ops", effort);
}

}  // namespace spillway
