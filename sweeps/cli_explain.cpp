// spillway explain: from the step time of one variant to that of another.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/error.h"
#include "reports/published.h"
#include "sweeps/cli.h"
#include "sweeps/explain.h"
#include "sweeps/fit.h"
#include "sweeps/sweep_file.h"
#include "workloads/json.h"

namespace spillway {

namespace {

// What was asked for, before anything is fitted.
struct AskedVariant {
  ExplainedPoint point;
  std::optional<SweepPoint> calibrated_on;  // the row that the sweep's figure is fitted on
  bool from_file = false;
};

AskedVariant of_sweep(const Sweep& sweep, const std::string& label) {
  std::string known;
  for (const SweepPoint& candidate : sweep.points) {
    known += (known.empty() ? "'" : ", '") + candidate.label + "'";
    if (candidate.label != label) continue;
    AskedVariant variant{{label, candidate.point, candidate.published, {}}, {}, false};
    if (const SweepPoint* on = sweep.calibrated_on(sweep.header_of(candidate)))
      variant.calibrated_on = *on;
    return variant;
  }
  throw InputError(text("explain: sweep '", sweep.headers.front().name, "': found no row '", label,
                        "', expected one of ", known));
}

AskedVariant of_file(const std::string& path) {
  std::ifstream in(path);
  if (!in.is_open() || std::filesystem::is_directory(path))
    throw InputError(text("explain: '", path,
                          "': expected SWEEP:LABEL, the label of a row of --sweep, or a file of "
                          "options as one JSON object"));
  const ParsedJson parsed = parse_json(std::string(std::istreambuf_iterator<char>(in), {}), path);
  if (!parsed.root.is_object())
    throw InputError(text(path, ": found ", shown(parsed.root), ", expected an object of options"));
  return {{path, point_from_json(parsed.root, path), "", {}}, {}, true};
}

bool is_sweep(const std::string& name) {
  const std::vector<std::string> shipped = sweep_names();
  const bool is_shipped = std::any_of(shipped.begin(), shipped.end(), [&](const std::string& one) {
    return name == one || name == one + ".json";
  });
  return is_shipped || std::filesystem::is_regular_file(name);
}

AskedVariant asked(const std::string& variant, const std::string& sweep) {
  // A label may hold colons, and so may a path: the first that ends the name of a sweep counts.
  for (size_t colon = variant.find(':'); colon != std::string::npos;
       colon = variant.find(':', colon + 1))
    if (is_sweep(variant.substr(0, colon)))
      return of_sweep(load_sweep(variant.substr(0, colon)), variant.substr(colon + 1));
  if (std::filesystem::is_regular_file(variant) || sweep.empty()) return of_file(variant);
  return of_sweep(load_sweep(sweep), variant);
}

std::optional<Fitted> fitted_on(const std::optional<SweepPoint>& row) {
  if (!row) return std::nullopt;
  return fit_matmul_efficiency(*row,
                               find_published(row->published).tflops_per_s_per_device.value());
}

bool same_row(const AskedVariant& a, const AskedVariant& b) {
  return a.calibrated_on && b.calibrated_on && key_of(*a.calibrated_on) == key_of(*b.calibrated_on);
}

// Options from a file have no sweep: they take the figure of the other's, or the machine would be
// part of the difference.
void fit(AskedVariant& a, AskedVariant& b) {
  if (a.from_file) a.calibrated_on = b.calibrated_on;
  if (b.from_file) b.calibrated_on = a.calibrated_on;
  a.point.fitted = fitted_on(a.calibrated_on);
  b.point.fitted = same_row(a, b) ? a.point.fitted : fitted_on(b.calibrated_on);
}

}  // namespace

int execute(const ExplainCommand& command) {
  const Format format = parse_format(command.format);
  require_writable(command.out);
  AskedVariant a = asked(command.a, command.sweep), b = asked(command.b, command.sweep);
  fit(a, b);
  write_text(command.out, render_explanation(explain(a.point, b.point), format));
  return 0;
}

}  // namespace spillway
