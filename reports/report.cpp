// The formats.
#include "reports/report.h"

#include <array>

#include "harness/error.h"
#include "reports/formats.h"

namespace spillway {

namespace {

struct FormatEntry {
  Format format;
  const char* name;
  std::string (*render)(const std::vector<Row>&);
};

constexpr std::array formats = std::to_array<FormatEntry>({
    {Format::md, "md", render_markdown},
    {Format::html, "html", render_html},
    {Format::csv, "csv", render_csv},
    {Format::json, "json", render_json},
});

}  // namespace

Format parse_format(const std::string& name) {
  std::string known;
  for (const FormatEntry& entry : formats) {
    if (name == entry.name) return entry.format;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw InputError(text("--format: found '", name, "', expected one of ", known));
}

std::string render_report(const std::vector<Row>& rows, Format format) {
  for (const FormatEntry& entry : formats)
    if (entry.format == format) return entry.render(rows);
  check(false, "every format has an entry");
  return "";
}

}  // namespace spillway
