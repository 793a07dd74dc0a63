// Option values from text.
#include "sweeps/parse.h"

#include <charconv>
#include <cmath>
#include <limits>
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

constexpr int64_t most_of_64_bits = std::numeric_limits<int64_t>::max();

bool is_digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// The upper limit is said where it is what was missed; of a word or -1 it is noise.
int64_t parse_whole(const std::string& option, const std::string& text, int64_t least,
                    int64_t most) {
  int64_t value = 0;
  const bool whole = read(text, value);
  if (whole && least <= value && value <= most) return value;
  const bool too_large = is_digits(text) && (!whole || value > most);
  std::string expected = spillway::text("a whole number of at least ", least);
  if (too_large) expected += spillway::text(" and at most ", most);
  bad_value(option, text, expected);
}

}  // namespace

int64_t parse_positive(const std::string& option, const std::string& text) {
  return parse_whole(option, text, 1, most_of_64_bits);
}

int64_t parse_count(const std::string& option, const std::string& text, int64_t most) {
  return parse_whole(option, text, 1, most);
}

int64_t parse_non_negative(const std::string& option, const std::string& text) {
  return parse_whole(option, text, 0, most_of_64_bits);
}

double parse_positive_real(const std::string& option, const std::string& text) {
  double value = 0;
  if (!read(text, value) || !std::isfinite(value) || value <= 0)
    bad_value(option, text, "a number greater than 0");
  return value;
}

double parse_at_least_one(const std::string& option, const std::string& text) {
  constexpr const char* expected = "a number of at least 1";
  double factor = 0;
  try {
    factor = parse_positive_real(option, text);
  } catch (const InputError&) {
    bad_value(option, text, expected);
  }
  if (factor < 1) bad_value(option, text, expected);
  return factor;
}

double parse_part(const std::string& option, const std::string& text) {
  constexpr const char* expected = "a number from 0 to 1";
  double sigma = 0;
  try {
    if (text != "0") sigma = parse_positive_real(option, text);
  } catch (const InputError&) {
    bad_value(option, text, expected);
  }
  if (sigma > 1) bad_value(option, text, expected);
  return sigma;
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
