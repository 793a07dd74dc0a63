// A sweep file.
#include "sweeps/sweep_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <set>

#include "harness/embedded.h"
#include "harness/error.h"
#include "reports/published.h"
#include "sweeps/changed_machine.h"
#include "sweeps/input_digest.h"
#include "sweeps/machines.h"
#include "workloads/json.h"

namespace spillway {

namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& file, const std::string& key, const std::string& found,
                         const std::string& expected) {
  throw InputError(text(file, ": ", key, ": found ", found, ", expected ", expected));
}

// What `work` refuses, with the place that asked for it.
template <class Work>
auto at(const std::string& where, const Work& work) {
  try {
    return work();
  } catch (const InputError& error) {
    throw InputError(text(where, ": ", error.what()));
  }
}

void only_keys(const json& object, std::initializer_list<const char*> known,
               const std::string& file, const std::string& where) {
  if (!object.is_object())
    refuse(file, where.empty() ? "the document" : where, shown(object), "an object");
  std::string list;
  for (const char* key : known)
    list += text(list.empty() ? "" : ", ", key);
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      refuse(file, where.empty() ? key : where + "." + key, "an unknown key", "one of " + list);
}

std::string word(const json& object, const char* key, const std::string& file,
                 const std::string& where) {
  const auto value = object.find(key);
  const std::string name = where.empty() ? key : where + "." + key;
  if (value == object.end()) refuse(file, name, "nothing", "a text");
  if (!value->is_string() || value->get<std::string>().empty())
    refuse(file, name, shown(*value), "a text that is not empty");
  return value->get<std::string>();
}

// The name is a directory below results/ where no other is given.
std::string name_word(const json& root, const std::string& file) {
  std::string name = word(root, "name", file, "");
  const bool is_plain = std::none_of(name.begin(), name.end(), [](char c) {
    return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ';
  });
  if (!is_plain || name == "." || name == "..")
    refuse(file, "name", shown(json(name)), "a plain file name: no slash, not . or ..");
  return name;
}

json array_or_empty(const json& root, const char* key, const std::string& file) {
  const json value = root.value(key, json::array());
  if (!value.is_array()) refuse(file, key, shown(value), "an array");
  return value;
}

json object_or_empty(const json& root, const char* key, const std::string& file,
                     const std::string& where) {
  json value = root.value(key, json::object());
  if (!value.is_object()) refuse(file, where + "." + key, shown(value), "an object");
  return value;
}

// What it changes is checked once the points are known: verify_alternatives().
Alternative alternative_of(const json& entry, const std::string& file) {
  const std::string where = "hypotheses.alternatives";
  if (!entry.is_object()) refuse(file, where, shown(entry), "an object");
  Alternative result{word(entry, "label", file, where)};
  for (const auto& [key, value] : entry.items())
    if (key != "label" && key != "rows" && key != "machine_figures") result.fields[key] = value;
  const json rows = object_or_empty(entry, "rows", file, where);
  for (const auto& [row, fields] : rows.items())
    result.rows[row] = fields;
  const json figures = object_or_empty(entry, "machine_figures", file, where);
  for (const auto& [key, value] : figures.items()) {
    if (!value.is_number())
      refuse(file, where + ".machine_figures." + key, shown(value), "a number");
    result.machine_figures[key] = value.get<double>();
  }
  if (result.fields.empty() && result.rows.empty() && result.machine_figures.empty())
    refuse(file, where + " '" + result.label + "'", "no change",
           "fields of a point, rows or machine_figures");
  return result;
}

std::vector<Hypothesis> hypotheses_of(const json& root, const std::string& file) {
  std::vector<Hypothesis> hypotheses;
  for (const json& entry : array_or_empty(root, "hypotheses", file)) {
    only_keys(entry, {"id", "setting", "status", "text", "alternatives"}, file, "hypotheses");
    hypotheses.push_back(
        {word(entry, "id", file, "hypotheses"), word(entry, "setting", file, "hypotheses"),
         word(entry, "status", file, "hypotheses"), word(entry, "text", file, "hypotheses")});
    for (const json& alternative : array_or_empty(entry, "alternatives", file))
      hypotheses.back().alternatives.push_back(alternative_of(alternative, file));
  }
  return hypotheses;
}

std::optional<Calibration> calibration_of(const json& root, const std::string& file) {
  const auto entry = root.find("calibrate");
  if (entry == root.end()) return std::nullopt;
  only_keys(*entry, {"figure", "on"}, file, "calibrate");
  Calibration calibration{word(*entry, "figure", file, "calibrate"),
                          word(*entry, "on", file, "calibrate")};
  if (calibration.figure != "matmul_efficiency")
    refuse(file, "calibrate.figure", "'" + calibration.figure + "'", "matmul_efficiency");
  return calibration;
}

// One entry of "points": defaults, then its own fields.
SweepPoint point_of(const json& entry, const Point& defaults, const std::string& file,
                    const std::string& sweep) {
  if (!entry.is_object()) refuse(file, "points", shown(entry), "an object");
  SweepPoint result{word(entry, "label", file, "points"), defaults, "", sweep};
  const std::string where = text(file, ": point '", result.label, "'");
  for (const auto& [key, value] : entry.items()) {
    if (key == "label") continue;
    if (key == "published" || key == "stands_for") {
      const std::string id = word(entry, key.c_str(), file, where);
      (key == "published" ? result.published : result.stands_for) =
          at(where, [&] { return find_published(id).id; });
    } else {
      set_field(result.point, key, value, where);
    }
  }
  return result;
}

// More is a mistake of the file: every point is held in memory and runs.
constexpr int64_t max_points = 100000;

// Before anything is multiplied. A product beyond int64_t is said as its greatest value.
void refuse_too_many(int64_t points, const json& axes, const std::string& file) {
  int64_t product = points;
  bool is_beyond = false;
  for (const json& values : axes)
    is_beyond |= __builtin_mul_overflow(product, static_cast<int64_t>(values.size()), &product);
  if (is_beyond) product = std::numeric_limits<int64_t>::max();
  if (product > max_points)
    refuse(file, "axes", text(is_beyond ? "more than " : "", product, " points"),
           text("at most ", max_points));
}

// Every point once for every combination of axis values.
std::vector<SweepPoint> multiplied(std::vector<SweepPoint> points, const json& axes,
                                   const std::string& file) {
  if (!axes.is_object()) refuse(file, "axes", shown(axes), "an object");
  for (const auto& [field, values] : axes.items())
    if (!values.is_array() || values.empty())
      refuse(file, "axes." + field, values.is_array() ? "an empty array" : shown(values),
             "an array of at least one value");
  refuse_too_many(static_cast<int64_t>(points.size()), axes, file);
  for (const auto& [field, values] : axes.items()) {
    std::vector<SweepPoint> next;
    for (const SweepPoint& point : points)
      for (const json& value : values) {
        next.push_back(point);
        set_field(next.back().point, field, value, file + ": axes");
        next.back().label +=
            text(", ", field, "=", value.is_string() ? value.get<std::string>() : value.dump());
      }
    points = std::move(next);
  }
  return points;
}

void refuse_repeats(const Sweep& sweep, const std::string& file) {
  std::set<std::string> labels, keys;
  for (const SweepPoint& point : sweep.points) {
    if (!labels.insert(point.sweep + ": " + point.label).second)
      refuse(file, "points", "the label '" + point.label + "' twice",
             "every label of a sweep once");
    if (!keys.insert(key_of(point)).second)
      refuse(file, "points", "the point '" + point.label + "' under another label too",
             "every point once");
  }
}

// How deep a file may include others; more is a circle.
constexpr int max_include_depth = 4;

Sweep load(const std::string& name_or_path, int depth);

void include(Sweep& sweep, const json& root, const std::string& file, int depth) {
  for (const json& name : array_or_empty(root, "include", file)) {
    if (!name.is_string()) refuse(file, "include", shown(name), "the name of a sweep");
    if (depth == max_include_depth)
      refuse(file, "include", name.dump(),
             text("files nested at most ", max_include_depth, " deep"));
    Sweep other = at(file + ": include", [&] { return load(name.get<std::string>(), depth + 1); });
    std::move(other.headers.begin(), other.headers.end(), std::back_inserter(sweep.headers));
    std::move(other.points.begin(), other.points.end(), std::back_inserter(sweep.points));
  }
}

void verify_calibration(const Sweep& sweep, const std::string& file) {
  const SweepHeader& header = sweep.headers.front();
  if (!header.calibration) return;
  const SweepPoint* on = sweep.calibrated_on(header);
  if (on == nullptr)
    refuse(file, "calibrate.on", "'" + header.calibration->on + "'",
           "the label of a point of this sweep");
  if (on->published.empty() || on->point.executor != ExecutorKind::sim)
    refuse(file, "calibrate.on", "'" + on->label + "'",
           "a simulated point with a published result");
}

void verify_alternative(const Alternative& alternative, const Sweep& sweep,
                        const std::string& where) {
  std::string labels;
  for (const SweepPoint& point : sweep.points)
    labels += text(labels.empty() ? "'" : ", '", point.label, "'");
  for (const auto& [row, fields] : alternative.rows) {
    const bool known = std::any_of(sweep.points.begin(), sweep.points.end(),
                                   [&, &label = row](const auto& p) { return p.label == label; });
    if (!known) refuse(where, "rows", "'" + row + "'", "the label of a row: " + labels);
    if (!fields.is_object() || fields.empty())
      refuse(where, "rows." + row, shown(fields), "an object of fields");
  }
  for (const SweepPoint& point : sweep.points)
    at(where, [&] {
      const Point changed = under(alternative, point);
      if (changed.executor == ExecutorKind::sim)
        change_figures(load_machine(machine_of(changed)), alternative.machine_figures);
    });
}

void verify_alternatives(const Sweep& sweep, const std::string& file) {
  for (const Hypothesis& hypothesis : sweep.headers.front().hypotheses)
    for (const Alternative& alternative : hypothesis.alternatives)
      verify_alternative(
          alternative, sweep,
          text(file, ": hypothesis '", hypothesis.id, "', alternative '", alternative.label, "'"));
}

// In percent.
double tolerance_of(const json& root, const std::string& file) {
  const json value = root.value("tolerance_percent", json(SweepHeader{}.tolerance_percent));
  if (!value.is_number() || !(value.get<double>() > 0))
    refuse(file, "tolerance_percent", shown(value), "a number above 0");
  return value.get<double>();
}

int64_t whole(const json& root, const char* key, int64_t when_absent, int64_t least,
              const std::string& file) {
  const json value = root.value(key, json(when_absent));
  if (!value.is_number_integer() || value.get<int64_t>() < least)
    refuse(file, key, shown(value), text("a whole number of at least ", least));
  return value.get<int64_t>();
}

std::vector<SweepPoint> points_of(const json& root, const std::string& file,
                                  const std::string& sweep) {
  Point defaults;
  const json given = root.value("defaults", json::object());
  if (!given.is_object()) refuse(file, "defaults", shown(given), "an object");
  for (const auto& [key, value] : given.items())
    set_field(defaults, key, value, file + ": defaults");
  std::vector<SweepPoint> points;
  for (const json& entry : array_or_empty(root, "points", file))
    points.push_back(point_of(entry, defaults, file, sweep));
  points = multiplied(std::move(points), root.value("axes", json::object()), file);
  InputDigests digests;
  for (SweepPoint& point : points) {
    at(text(file, ": point '", point.label, "'"), [&] { verify_point(point.point); });
    point.files = digests.of(point.point);
  }
  return points;
}

Sweep parse(const std::string& json_text, const std::string& file, int depth) {
  const ParsedJson parsed = parse_json(json_text, file);
  if (!parsed.warnings.empty()) throw InputError(parsed.warnings.front());
  const json& root = parsed.root;
  only_keys(root,
            {"name", "title", "include", "defaults", "points", "axes", "calibrate", "hypotheses",
             "tolerance_percent", "steps_per_visit", "time_budget_seconds", "seed"},
            file, "");
  Sweep sweep;
  sweep.headers.push_back({name_word(root, file), word(root, "title", file, ""),
                           hypotheses_of(root, file), calibration_of(root, file),
                           tolerance_of(root, file)});
  sweep.points = points_of(root, file, sweep.headers.front().name);
  verify_alternatives(sweep, file);
  sweep.steps_per_visit = whole(root, "steps_per_visit", 2, 1, file);
  sweep.time_budget_seconds = static_cast<double>(whole(root, "time_budget_seconds", 0, 0, file));
  sweep.seed = static_cast<uint64_t>(whole(root, "seed", 0, 0, file));
  include(sweep, root, file, depth);
  if (sweep.points.empty()) refuse(file, "points", "none", "at least one point");
  refuse_repeats(sweep, file);
  verify_calibration(sweep, file);
  return sweep;
}

Sweep load(const std::string& name_or_path, int depth) {
  for (const EmbeddedFile& file : embedded_sweeps())
    if (name_or_path == file.name || name_or_path + ".json" == file.name)
      return parse(std::string(file.text), std::string(file.name), depth);
  std::ifstream in(name_or_path);
  if (in.peek(); !in.bad() && in.is_open() && !std::filesystem::is_directory(name_or_path))
    return parse(std::string(std::istreambuf_iterator<char>(in), {}), name_or_path, depth);
  std::string known;
  for (const std::string& name : sweep_names())
    known += (known.empty() ? "" : ", ") + name;
  throw InputError(
      text("sweep '", name_or_path, "': neither a file that can be read nor one of ", known));
}

}  // namespace

const SweepHeader& Sweep::header_of(const SweepPoint& point) const {
  return *std::find_if(headers.begin(), headers.end(),
                       [&](const SweepHeader& header) { return header.name == point.sweep; });
}

const SweepPoint* Sweep::calibrated_on(const SweepHeader& header) const {
  if (!header.calibration) return nullptr;
  const auto on = std::find_if(points.begin(), points.end(), [&](const SweepPoint& point) {
    return point.label == header.calibration->on && point.sweep == header.name;
  });
  return on == points.end() ? nullptr : &*on;
}

Point under(const Alternative& alternative, const SweepPoint& point) {
  Point changed = point.point;
  const auto set = [&](const json& fields) {
    for (const auto& [key, value] : fields.items())
      set_field(changed, key, value, "'" + point.label + "'");
  };
  set(alternative.fields);
  if (const auto own = alternative.rows.find(point.label); own != alternative.rows.end())
    set(own->second);
  verify_point(changed);
  return changed;
}

std::string key_of(const SweepPoint& point) {
  json key = {{"point", to_json(point.point)}, {"sweep", point.sweep}};
  // Keys of points that read shipped files only are as they were before files counted.
  if (!point.files.empty()) key["files"] = point.files;
  return key.dump();
}

Sweep parse_sweep(const std::string& json_text, const std::string& file) {
  return parse(json_text, file, 0);
}

std::vector<std::string> sweep_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_sweeps())
    names.emplace_back(file.name.substr(0, file.name.rfind('.')));
  return names;
}

Sweep load_sweep(const std::string& name_or_path) { return load(name_or_path, 0); }

}  // namespace spillway
