// Numbers and text as reports print them. No JSON, no rows here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spillway {

// A figure that may be missing.
using Number = std::optional<double>;

inline constexpr double bytes_per_gib = 1024.0 * 1024.0 * 1024.0;

// All print an empty text for what is missing or not finite: blank, never 0.
std::string fixed(Number value, int decimals);
std::string with_sign(Number value, int decimals);  // "+2.89", "-3.75"
// At least `digits` significant digits; digits before the point are never rounded away: 2669,
// 0.1534.
std::string significant(Number value, int digits);
// Up to four significant digits without trailing zeros, for scales: "0.5", "2000".
std::string plain(Number value);
// A duration in the unit that suits it: "15.06 s", "31.7 ms", "8.2 us".
std::string duration(Number seconds);
std::string plain_duration(Number seconds);  // for scales: "20 ms"
// Bytes in GiB, MiB or KiB: "70.88 GiB", "576.00 MiB".
std::string byte_size(Number bytes);

std::string html_escape(std::string_view text);  // & < > " '
std::string markdown_escape(
    std::string_view text);                      // for a table cell: |, <, line breaks, backslash
std::string csv_field(std::string_view text);    // quoted where commas, quotes, breaks need it
std::string shell_quote(std::string_view text);  // for a POSIX command line, quoted where needed

// Characters (not bytes) of a UTF-8 text.
int64_t characters(std::string_view text);
// The first `limit` characters, the last of them an ellipsis where something was cut.
std::string shorten(const std::string& text, int64_t limit);

}  // namespace spillway
