// Bars of rates: ours against published.
#include <algorithm>
#include <cmath>

#include "harness/error.h"
#include "reports/charts.h"
#include "reports/palette.h"
#include "reports/svg.h"

namespace spillway {

namespace {

constexpr double gutter = 250;  // labels
constexpr double margin = 190;  // figures behind the bars
constexpr double plot = chart_width - gutter - margin;
constexpr double pitch = 50, thick = 18, thin = 12;

struct Bar {
  const Row* row;
  Number ours, low, high;  // the range of our steps
  Number published;
};

// The rate of a step that takes not the median but the seconds at `path`.
Number rate_of_steps(const Row& row, const char* path) {
  const Number seconds = figure_at(row, path);
  const Number median = figure_at(row, "step_seconds.median");
  const Number middle = figure_at(row, "tflops_per_s_per_device");
  if (!seconds || !median || !middle || *seconds <= 0) return std::nullopt;
  return *middle * *median / *seconds;
}

std::vector<Bar> rate_bars(const Group& group) {
  std::vector<Bar> bars;
  for (const Row* row : group.rows) {
    Bar bar{row, figure_at(*row, "tflops_per_s_per_device"), {}, {}, {}};
    if (row->published) bar.published = row->published->tflops_per_s_per_device;
    if (figure_at(*row, "step_seconds.n").value_or(0) > 1) {
      bar.low = rate_of_steps(*row, "step_seconds.max");
      bar.high = rate_of_steps(*row, "step_seconds.min");
    }
    bars.push_back(bar);
  }
  return bars;
}

double extent_of(const std::vector<Bar>& bars) {
  double extent = 0;
  for (const Bar& bar : bars)
    for (const Number& value : {bar.ours, bar.high, bar.published})
      extent = std::max(extent, std::abs(value.value_or(0)));
  return extent;
}

void label(Svg& svg, const Row& row, double y) {
  svg.text(gutter - 12, y, "end label", shorten(row.label, 36), row.label);
}

void whisker(Svg& svg, const Bar& bar, double y, double scale) {
  if (!bar.low || !bar.high) return;
  const double low = gutter + *bar.low * scale, high = gutter + *bar.high * scale;
  svg.line(low, y, high, y, "whisker");
  svg.line(low, y - 4, low, y + 4, "whisker");
  svg.line(high, y - 4, high, y + 4, "whisker");
}

void grid(Svg& svg, double extent, double height, double scale) {
  const double step = nice_step(extent, 5);
  for (double value = 0; value <= extent * 1.001; value += step) {
    const double x = gutter + value * scale;
    svg.line(x, 8, x, height - 22, "grid");
    svg.text(x, height - 8, "mid tick", plain(value));
  }
}

void rate_row(Svg& svg, const Bar& bar, double y, double scale) {
  label(svg, *bar.row, y + (bar.published ? 25 : 18));
  if (!bar.ours) {
    svg.text(gutter + 6, y + 18, "bad", text_at(*bar.row, "status"), text_at(*bar.row, "reason"));
  } else {
    const std::string value = significant(bar.ours, 4);
    svg.rect({gutter, y + 4, *bar.ours * scale, thick}, "f-ours",
             bar.row->label + ": " + value + " TFLOPs/s/device");
    whisker(svg, bar, y + 4 + thick / 2, scale);
    const double end = std::max(*bar.ours, bar.high.value_or(0));
    svg.text(gutter + end * scale + 8, y + 18, "value", value);
  }
  if (!bar.published) return;
  const std::string value = significant(bar.published, 4);
  svg.rect({gutter, y + 5 + thick, *bar.published * scale, thin}, "f-published",
           "published: " + value + " TFLOPs/s/device");
  svg.text(gutter + *bar.published * scale + 8, y + 15 + thick, "small", "published " + value);
  const std::string error =
      is_fitted_row(*bar.row) ? "fitted" : with_sign(error_percent(*bar.row), 2) + " %";
  if (bar.ours) svg.text(chart_width - 6, y + 18, "end value", error);
}

}  // namespace

std::string rate_chart(const Group& group) {
  const std::vector<Bar> bars = rate_bars(group);
  const double extent = extent_of(bars);
  if (extent <= 0) return "";
  const double row_height = has_published(group) ? pitch : pitch - thin - 6;
  const double height = 12 + row_height * static_cast<double>(bars.size()) + 28;
  const double scale = plot / extent;
  Svg svg(chart_width, height, "TFLOPs/s/device of every run");
  grid(svg, extent, height, scale);
  double y = 8;
  for (const Bar& bar : bars) {
    rate_row(svg, bar, y, scale);
    y += row_height;
  }
  svg.line(gutter, 8, gutter, height - 22, "axis");
  return (has_published(group) ? legend(comparison_swatches()) : "") + svg.str();
}

}  // namespace spillway
