// Printing and escaping.
#include "reports/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

namespace spillway {

namespace {

bool printable(Number value) { return value && std::isfinite(*value); }

// "-0.00" reads as a sign that is not there.
std::string without_negative_zero(std::string text) {
  const bool zero = text.find_first_of("123456789") == std::string::npos;
  if (zero && !text.empty() && text[0] == '-') text.erase(0, 1);
  return text;
}

std::string print(double value, int decimals) {
  char buffer[400];  // the largest double has 309 digits before the point
  const int length = std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return without_negative_zero(std::string(buffer, static_cast<size_t>(length)));
}

struct Scaled {
  double value;
  const char* unit;
};

Scaled in_unit(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 1 || size == 0) return {seconds, " s"};
  if (size >= 1e-3) return {seconds * 1e3, " ms"};
  return {seconds * 1e6, " us"};
}

}  // namespace

std::string fixed(Number value, int decimals) {
  return printable(value) ? print(*value, decimals) : "";
}

std::string with_sign(Number value, int decimals) {
  const std::string plain = fixed(value, decimals);
  const bool positive = plain.find_first_of("123456789") != std::string::npos && plain[0] != '-';
  return positive ? "+" + plain : plain;
}

std::string significant(Number value, int digits) {
  if (!printable(value)) return "";
  if (*value == 0) return "0";
  const int before = static_cast<int>(std::floor(std::log10(std::abs(*value)))) + 1;
  return fixed(value, std::clamp(digits - before, 0, 12));
}

std::string plain(Number value) {
  if (!printable(value)) return "";
  char buffer[40];
  const int length = std::snprintf(buffer, sizeof buffer, "%.4g", *value + 0.0);
  return std::string(buffer, static_cast<size_t>(length));
}

std::string duration(Number seconds) {
  if (!printable(seconds)) return "";
  const auto [value, unit] = in_unit(*seconds);
  return significant(value, 4) + unit;
}

std::string plain_duration(Number seconds) {
  if (!printable(seconds)) return "";
  const auto [value, unit] = in_unit(*seconds);
  return plain(value) + unit;
}

std::string byte_size(Number bytes) {
  if (!printable(bytes)) return "";
  if (*bytes >= bytes_per_gib) return fixed(*bytes / bytes_per_gib, 2) + " GiB";
  if (*bytes >= 1024.0 * 1024.0) return fixed(*bytes / (1024.0 * 1024.0), 2) + " MiB";
  if (*bytes >= 1024.0) return fixed(*bytes / 1024.0, 2) + " KiB";
  return fixed(*bytes, 0) + " B";
}

std::string html_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        // Control characters are not allowed in HTML or XML text.
        out += static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

std::string markdown_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '\\') out += '\\';
    if (c == '<')
      out += "&lt;";
    else if (c == '\n')
      out += "<br>";
    else if (c != '\r')
      out += c;
  }
  return out;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string shell_quote(std::string_view text) {
  static constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos)
    return std::string(text);
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

int64_t characters(std::string_view text) {
  // UTF-8: every character has one byte that is not 10xxxxxx.
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string shorten(const std::string& text, int64_t limit) {
  if (characters(text) <= limit) return text;
  size_t end = 0;
  for (int64_t kept = 0; end < text.size(); ++end) {
    const bool first_byte = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (first_byte && ++kept == limit) break;
  }
  return text.substr(0, end) + "\u2026";
}

}  // namespace spillway
