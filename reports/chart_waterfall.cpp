// From one step time to another, cause by cause.
#include <algorithm>
#include <cmath>

#include "harness/error.h"
#include "reports/charts.h"
#include "reports/explanation.h"
#include "reports/svg.h"

namespace spillway {

namespace {

constexpr double gutter = 250, margin = 90;
constexpr double plot = chart_width - gutter - margin;
constexpr double pitch = 26, thick = 16;
// Causes below this share of the widest span of the picture are one bar together.
constexpr double smallest_share = 0.004;

struct Bar {
  std::string name, title;
  double from = 0, to = 0;
  bool total = false;  // a whole step, drawn from the left edge
};

struct Scale {
  double low = 0, high = 0;
  double at(double seconds) const { return gutter + (seconds - low) / (high - low) * plot; }
};

std::vector<Bar> bars_of(const Explanation& explanation) {
  const std::vector<const ExplainedItem*> items = by_size(explanation);
  double moved = 0, at = explanation.a.step_seconds;
  for (const ExplainedItem* item : items)
    moved += std::abs(item->change());
  std::vector<Bar> bars{{"A: " + explanation.a.label, "", 0, at, true}};
  double small = 0;
  for (const ExplainedItem* item : items) {
    if (std::abs(item->change()) < smallest_share * moved) {
      small += item->change();
      continue;
    }
    bars.push_back({item->name, item->meaning, at, at + item->change(), false});
    at += item->change();
  }
  if (small != 0)
    bars.push_back({"all others", "causes too small for a bar", at, at + small, false});
  bars.push_back({"B: " + explanation.b.label, "", 0, explanation.b.step_seconds, true});
  return bars;
}

// The part of the axis in which something happens, with room around it.
Scale scale_of(const std::vector<Bar>& bars) {
  Scale scale{bars.front().to, bars.front().to};
  for (const Bar& bar : bars) {
    scale.low = std::min({scale.low, bar.to, bar.total ? bar.to : bar.from});
    scale.high = std::max({scale.high, bar.to, bar.from});
  }
  const double pad = std::max(0.15 * (scale.high - scale.low), 1e-3 * scale.high);
  return {std::max(0.0, scale.low - pad), scale.high + pad};
}

void grid(Svg& svg, const Scale& scale, double height) {
  const double step = nice_step(scale.high - scale.low, 8);
  for (double value = std::ceil(scale.low / step) * step; value <= scale.high; value += step) {
    svg.line(scale.at(value), 6, scale.at(value), height - 22, "grid");
    svg.text(scale.at(value), height - 8, "mid tick", plain(value) + " s");
  }
}

void draw(Svg& svg, const Bar& bar, const Scale& scale, double y) {
  const double from = scale.at(bar.total ? scale.low : bar.from), to = scale.at(bar.to);
  const std::string value =
      bar.total ? fixed(bar.to, 3) + " s" : with_sign(bar.to - bar.from, 3) + " s";
  const char* style = bar.total ? "f-ours" : bar.to > bar.from ? "f-d2h" : "f-elementwise";
  svg.text(gutter - 12, y + 13, "end label", shorten(bar.name, 36), bar.name);
  svg.rect({std::min(from, to), y, std::max(1.0, std::abs(to - from)), thick}, style,
           text(bar.name, ": ", value, bar.title.empty() ? "" : ": ", bar.title));
  svg.text(std::max(from, to) + 6, y + 13, "value", value);
}

}  // namespace

std::string waterfall_chart(const Explanation& explanation) {
  const std::vector<Bar> bars = bars_of(explanation);
  const Scale scale = scale_of(bars);
  const double height = 12 + pitch * static_cast<double>(bars.size()) + 28;
  Svg svg(chart_width, height, "Step time of A, the change by each cause, step time of B");
  grid(svg, scale, height);
  double y = 10;
  for (const Bar& bar : bars) {
    draw(svg, bar, scale, y);
    y += pitch;
  }
  return svg.str();
}

}  // namespace spillway
