// Option values from text.
#include "sweeps/parse.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "harness/error.h"

namespace spillway {

void bad_value(const std::string& option, const std::string& found, const std::string& expected) {
  throw InputError(text(option, ": found '", found, "', expected ", expected));
}

namespace {

// The whole of `digits` as a number, or false.
template <class Number>
bool read(const std::string& digits, Number& value) {
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  return error == std::errc() && stop == end;
}

}  // namespace

int64_t parse_positive(const std::string& option, const std::string& text) {
  int64_t value = 0;
  if (!read(text, value) || value < 1) bad_value(option, text, "a whole number of at least 1");
  return value;
}

int64_t parse_non_negative(const std::string& option, const std::string& text) {
  int64_t value = 0;
  if (!read(text, value) || value < 0) bad_value(option, text, "a whole number of at least 0");
  return value;
}

double parse_positive_real(const std::string& option, const std::string& text) {
  double value = 0;
  if (!read(text, value) || !std::isfinite(value) || value <= 0)
    bad_value(option, text, "a number greater than 0");
  return value;
}

bool parse_on_off(const std::string& option, const std::string& text) {
  if (text == "on") return true;
  if (text == "off") return false;
  bad_value(option, text, "on or off");
}

int64_t parse_bytes(const std::string& option, const std::string& text) {
  constexpr std::pair<const char*, int> units[] = {
      {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
  const char* const expected = "a positive number of bytes, or a number with KiB, MiB, GiB or TiB";
  for (const auto& [unit, shift] : units) {
    if (text.size() <= 3 || text.compare(text.size() - 3, 3, unit) != 0) continue;
    double count = 0;
    if (!read(text.substr(0, text.size() - 3), count) || !(count > 0))
      bad_value(option, text, expected);
    const double bytes = std::ldexp(count, shift);
    if (bytes < 1 || bytes >= 0x1p62) bad_value(option, text, "between 1 byte and 2^62 bytes");
    return static_cast<int64_t>(bytes);
  }
  int64_t bytes = 0;
  if (!read(text, bytes) || bytes < 1) bad_value(option, text, expected);
  return bytes;
}

}  // namespace spillway
