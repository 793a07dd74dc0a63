// Why one variant of a point takes longer or needs more memory than another: a plain value and its
// prints. How it is obtained is the sweeps' (sweeps/explain.h); nothing here runs anything.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/report.h"
#include "reports/text.h"

namespace spillway {

// One of the two variants.
struct ExplainedSide {
  std::string label;
  std::string status, reason;  // oom: its times are those of a device that had the memory
  nlohmann::json config;       // as in a result
  std::string fitted;          // "matmul_efficiency 0.6411, on 'no offload'", or empty
  double step_seconds = 0;     // simulated
  double tflops_per_s_per_device = 0;
  Number published_step_seconds;  // FLOPs counted here over the published rate
};

// A part of an item, for the reader: an op kind, an activation.
struct ExplainedPart {
  std::string name;
  double a = 0, b = 0;
  double change() const { return b - a; }
};

// One cause, seconds of the step of each side. The items of a side add up to its step.
struct ExplainedItem {
  std::string key;      // "rotation_copies"
  std::string name;     // "rotation copies"
  std::string meaning;  // one line
  double a = 0, b = 0;
  std::vector<ExplainedPart> parts;  // those that differ, largest first
  double change() const { return b - a; }
};

// What has no time of its own: bytes of a kind in a step, FLOPs.
struct ExplainedTraffic {
  std::string name, unit;  // "bytes", "FLOP"
  double a = 0, b = 0;
};

// Bytes of the planned peak of each side, by cause. They sum to the peaks.
struct ExplainedMemory {
  std::string name;
  double a = 0, b = 0;
  std::string meaning;  // may be empty
};

struct Explanation {
  ExplainedSide a, b;
  std::vector<ExplainedItem>
      items;  // in the order of a table, those that neither side has left out
  std::vector<ExplainedTraffic> traffic;
  double peak_a = 0, peak_b = 0;  // bytes
  std::vector<ExplainedMemory> memory;

  double change() const { return b.step_seconds - a.step_seconds; }
  Number published_change() const;
};

// Which mechanisms decide, in a few sentences made from the figures.
std::vector<std::string> sentences_of(const Explanation& explanation);

// md, html or json (csv: InputError).
std::string render_explanation(const Explanation& explanation, Format format);

// A bar for each item from where the one before it ended, between the two step times.
std::string waterfall_chart(const Explanation& explanation);

// The items in the order of their size, those too small to be seen left out.
std::vector<const ExplainedItem*> by_size(const Explanation& explanation);

}  // namespace spillway
