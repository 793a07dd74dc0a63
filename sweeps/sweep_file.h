// A sweep file: the points to run and what is common to them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/point.h"

namespace spillway {

struct SweepPoint {
  std::string label;
  Point point;
  std::string published;   // id of the published result it is set beside, or empty
  std::string sweep;       // name of the sweep file it comes from (an included one keeps its own)
  std::string files = {};  // InputDigests of what it reads that is not shipped, or empty
  std::string stands_for = {};  // id of the published result that it is a proxy of, or empty
};

// Another way in which a hypothesis may be settled: what differs from the sweep then.
struct Alternative {
  std::string label;
  nlohmann::json fields = nlohmann::json::object();  // of every row: {field: value}
  std::map<std::string, nlohmann::json> rows = {};   // of single rows: label -> {field: value}
  std::map<std::string, double> machine_figures = {};
};

struct Hypothesis {
  std::string id, setting, status, text;
  std::vector<Alternative> alternatives = {};
};

// "calibrate": solve `figure` so that the simulated row `on` equals its published TFLOPs/s/device.
struct Calibration {
  std::string figure;  // matmul_efficiency
  std::string on;      // label
};

// What is common to the points of one sweep file.
struct SweepHeader {
  std::string name, title;
  std::vector<Hypothesis> hypotheses;
  std::optional<Calibration> calibration;
  double tolerance_percent = 5;  // error of a predicted row that a hypothesis may leave
};

struct Sweep {
  std::vector<SweepHeader> headers;  // this file's first, then those of the files it includes
  std::vector<SweepPoint> points;
  int64_t steps_per_visit = 2;     // executed points: steps between two changes of variant
  double time_budget_seconds = 0;  // for all executed points together; 0: none
  uint64_t seed = 0;               // of the order of visits

  const SweepHeader& header_of(const SweepPoint& point) const;
  // The row that the figure of a file's points is solved on; null where it calibrates nothing.
  const SweepPoint* calibrated_on(const SweepHeader& header) const;
};

// Reads {"name", "title", "include": [names], "defaults": {fields}, "points": [{"label",
// "published", "stands_for", fields...}], "axes": {field: [values]}, "calibrate": {"figure", "on"},
// "hypotheses": [{"id", "setting", "status", "text", "alternatives": [{"label", fields..., "rows":
// {label: {fields}}, "machine_figures": {figure: value}}]}], "tolerance_percent", "steps_per_visit", "time_budget_seconds", "seed"}. Axes multiply every point, to 100,000 at
// most; labels are extended by the axis values. Throws InputError naming file and key (line and column where the
// JSON is malformed): unknown key, missing label, label or point given twice, bad value.
Sweep parse_sweep(const std::string& json_text, const std::string& file);

// The point of a row as it is under an alternative. Throws InputError for what no option takes.
Point under(const Alternative& alternative, const SweepPoint& point);

// A shipped sweep by name (with or without .json), else a file by path.
Sweep load_sweep(const std::string& name_or_path);
std::vector<std::string> sweep_names();

// Everything that decides a point's result, the content of files it names included, as canonical
// text; two points are the same when these are.
std::string key_of(const SweepPoint& point);

}  // namespace spillway
