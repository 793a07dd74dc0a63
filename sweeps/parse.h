// Option values from text, strictly: the whole text must be the value.
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

// Each throws InputError "<option>: found '<text>', expected <what>".
int64_t parse_positive(const std::string& option, const std::string& text);  // >= 1
int64_t parse_count(const std::string& option, const std::string& text,
                    int64_t most);                                               // 1 to most
int64_t parse_non_negative(const std::string& option, const std::string& text);  // >= 0
double parse_positive_real(const std::string& option, const std::string& text);  // finite, > 0
double parse_at_least_one(const std::string& option, const std::string& text);   // finite, >= 1
double parse_part(const std::string& option, const std::string& text);           // 0 to 1
bool parse_on_off(const std::string& option, const std::string& text);
// Bytes: a positive integer, or a positive number followed by KiB, MiB, GiB or TiB.
int64_t parse_bytes(const std::string& option, const std::string& text);

[[noreturn]] void bad_value(const std::string& option, const std::string& found,
                            const std::string& expected);

}  // namespace spillway
