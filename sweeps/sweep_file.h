// A sweep file: the points to run and what is common to them.
#pragma once

#include <cstdint>
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

struct Hypothesis {
  std::string id, setting, status, text;
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
};

struct Sweep {
  std::vector<SweepHeader> headers;  // this file's first, then those of the files it includes
  std::vector<SweepPoint> points;
  int64_t steps_per_visit = 2;     // executed points: steps between two changes of variant
  double time_budget_seconds = 0;  // for all executed points together; 0: none
  uint64_t seed = 0;               // of the order of visits

  const SweepHeader& header_of(const SweepPoint& point) const;
};

// Reads {"name", "title", "include": [names], "defaults": {fields}, "points": [{"label",
// "published", "stands_for", fields...}], "axes": {field: [values]}, "calibrate": {"figure", "on"},
// "hypotheses": [...], "steps_per_visit", "time_budget_seconds", "seed"}. Axes multiply every point, to 100,000 at
// most; labels are extended by the axis values. Throws InputError naming file and key (line and column where the
// JSON is malformed): unknown key, missing label, label or point given twice, bad value.
Sweep parse_sweep(const std::string& json_text, const std::string& file);

// A shipped sweep by name (with or without .json), else a file by path.
Sweep load_sweep(const std::string& name_or_path);
std::vector<std::string> sweep_names();

// Everything that decides a point's result, the content of files it names included, as canonical
// text; two points are the same when these are.
std::string key_of(const SweepPoint& point);

}  // namespace spillway
