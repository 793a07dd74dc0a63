// The table of parts.
#include "tests/gpu/part.h"

#include <array>

namespace spillway {
namespace {

constexpr std::array table = std::to_array<Part>({
    {"environment", 20, "device, driver, clocks, toolkit, free memory", check_environment},
    {"ops", 60, "every kernel against its op's definition and the CPU's kernel", check_ops},
    {"identity", 60, "the same bits over policies, schedules and graphs", check_identity},
    {"cpu", 40, "loss and gradients beside the CPU executor's", check_against_cpu},
    {"stress", 30, "slow copies and poison change nothing", check_stress},
    {"races", 40, "a wait less shows", check_races},
    {"copies", 40, "copies against a plain loop of cudaMemcpyAsync", check_copies},
    {"llama3.1-405b", 90, "full-size layers: rates of kernels, what copies cost", check_llama},
    {"deepseek-v3", 90, "the same of latent attention and experts", check_deepseek},
    {"calibrate", 60, "offload over remat as the calibrated simulator has it", check_calibration},
    {"memcheck", 60, "compute-sanitizer: accesses of every small case", check_memory_tool},
    {"racecheck", 60, "compute-sanitizer: shared memory of every small case", check_race_tool},
});

}  // namespace

std::span<const Part> parts() { return table; }

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "fail";
    case Verdict::skipped:
      return "skipped";
  }
  return "?";
}

void Finding::fail(const std::string& why) {
  if (verdict == Verdict::fail) return;
  verdict = Verdict::fail;
  reason = why;
}

nlohmann::json line_of(const std::string& part, const Finding& finding, double seconds) {
  return {
      {"part", part},
      {"status", name_of(finding.verdict)},
      {"reason", finding.reason.empty() ? nlohmann::json(nullptr) : nlohmann::json(finding.reason)},
      {"seconds", seconds},
      {"figures", finding.figures}};
}

}  // namespace spillway
