// Which GPUs the kernels of this build run on. Compiled with the list of targets, as CMake names them.
#include <charconv>
#include <sstream>

#include "harness/cuda/cuda_executor.h"

#ifndef SPILLWAY_CUDA_TARGETS
#define SPILLWAY_CUDA_TARGETS ""
#endif

namespace spillway {
namespace {

// "80-real": machine code, for 8.0 and later minors of it. "90a-real": for that one alone. "80" and
// "80-virtual" have code that a driver translates for any later one.
bool runs_on(const std::string& target, int major, int minor) {
  int number = 0;
  const char* const end = target.data() + target.size();
  const char* rest = std::from_chars(target.data(), end, number).ptr;
  const int capability = 10 * major + minor;
  if (rest != end && *rest == 'a') return capability == number;
  const bool translated = std::string(rest, end) != "-real";
  return capability >= number && (translated || number / 10 == major);
}

}  // namespace

std::string cuda_targets() { return SPILLWAY_CUDA_TARGETS; }

bool built_for(const std::string& targets, int major, int minor) {
  std::istringstream words(targets);
  for (std::string target; words >> target;)
    if (runs_on(target, major, minor)) return true;
  return false;
}

}  // namespace spillway
