#include "workloads/checked.h"

#include <limits>

#include "harness/error.h"

namespace spillway {
namespace {

constexpr int64_t largest = std::numeric_limits<int64_t>::max();

[[noreturn]] void refuse(const char* what) {
  throw InputError(
      text(what, ": found sizes whose total does not fit 64 bits, expected at most ", largest));
}

}  // namespace

int64_t checked_product(const char* what, std::initializer_list<int64_t> factors) {
  int64_t result = 1;
  for (const int64_t factor : factors) {
    check(factor >= 0, what, ": negative factor ", factor);
    if (factor != 0 && result > largest / factor) refuse(what);
    result *= factor;
  }
  return result;
}

int64_t checked_sum(const char* what, std::initializer_list<int64_t> terms) {
  int64_t result = 0;
  for (const int64_t term : terms) {
    check(term >= 0, what, ": negative term ", term);
    if (result > largest - term) refuse(what);
    result += term;
  }
  return result;
}

}  // namespace spillway
