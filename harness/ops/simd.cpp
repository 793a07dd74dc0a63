// Which instruction set the kernels use.
#include "harness/ops/simd.h"

#include <cstdlib>
#include <string>

#include "harness/error.h"

namespace spillway {
namespace {

SimdLevel best_level() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx2) return avx512 ? SimdLevel::avx512 : SimdLevel::avx2;
#endif
  return SimdLevel::baseline;
}

}  // namespace

const char* name_of(SimdLevel level) {
  constexpr const char* names[] = {"baseline", "avx2", "avx512"};
  return names[static_cast<int>(level)];
}

SimdLevel simd_level() {
  const SimdLevel best = best_level();
  const char* asked = std::getenv("SPILLWAY_SIMD");
  if (asked == nullptr) return best;
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::avx2, SimdLevel::avx512}) {
    if (level <= best && asked == std::string(name_of(level))) return level;
  }
  throw InputError(text("environment variable SPILLWAY_SIMD: found '", asked,
                        "', expected baseline, avx2 or avx512, at most ", name_of(best),
                        " on this processor"));
}

}  // namespace spillway
