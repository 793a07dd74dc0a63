// Pictures of differences: what a choice gains over the first row, what it costs against remat.
#include <algorithm>
#include <cmath>

#include "harness/error.h"
#include "reports/charts.h"
#include "reports/palette.h"
#include "reports/svg.h"

namespace spillway {

namespace {

constexpr double gutter = 250, margin = 80;
constexpr double plot = chart_width - gutter - margin;
constexpr double row_height = 44, bar_height = 15;

// Maps [low, high] to the plot; grid lines at round values.
struct Axis {
  double low = 0, high = 0;
  double at(double value) const { return gutter + (value - low) / (high - low) * plot; }
};

void grid(Svg& svg, const Axis& axis, double height, const std::string& unit) {
  const double step = nice_step(axis.high - axis.low, 8);
  for (double value = std::ceil(axis.low / step) * step; value <= axis.high; value += step) {
    const double x = axis.at(value);
    svg.line(x, 6, x, height - 22, "grid");
    svg.text(x, height - 8, "mid tick", plain(std::abs(value) < step / 2 ? 0 : value) + unit);
  }
}

struct Gain {
  const Row* row;
  Number ours, published;
};

std::vector<Gain> gains_of(const Group& group) {
  std::vector<Gain> gains;
  const Row& first = *group.first;
  for (const Row* row : group.rows) {
    if (row == group.first) continue;
    Gain gain{row,
              percent_over(figure_at(*row, "tflops_per_s_per_device"),
                           figure_at(first, "tflops_per_s_per_device")),
              {}};
    if (row->published && first.published)
      gain.published = percent_over(row->published->tflops_per_s_per_device,
                                    first.published->tflops_per_s_per_device);
    if (gain.ours || gain.published) gains.push_back(gain);
  }
  return gains;
}

Axis axis_of(const std::vector<Gain>& gains) {
  Axis axis;
  for (const Gain& gain : gains)
    for (const Number& value : {gain.ours, gain.published}) {
      axis.low = std::min(axis.low, value.value_or(0));
      axis.high = std::max(axis.high, value.value_or(0));
    }
  const double pad = 0.12 * std::max(axis.high - axis.low, 0.1);  // room for the figures
  return {axis.low - pad, axis.high + pad};
}

void signed_bar(Svg& svg, const Axis& axis, double y, double value, const char* style_class,
                const std::string& what) {
  const double zero = axis.at(0), end = axis.at(value);
  const std::string printed = with_sign(value, 2) + " %";
  svg.rect({std::min(zero, end), y, std::abs(end - zero), bar_height}, style_class,
           what + ": " + printed);
  svg.text(value < 0 ? end - 6 : end + 6, y + 12, value < 0 ? "end small" : "small", printed);
}

// Rows with a ratio to remat, and the axis that holds them all and 1.
struct Ratios {
  std::vector<std::pair<const Row*, Ratio>> rows;
  Axis axis{1, 1};
};

Ratios ratios_of(const Group& group) {
  Ratios ratios;
  for (const Row* row : group.rows) {
    const auto ratio = row == group.remat ? std::nullopt : step_ratio(*row, *group.remat);
    if (!ratio) continue;
    ratios.rows.emplace_back(row, *ratio);
    ratios.axis.low = std::min(ratios.axis.low, ratio->low);
    ratios.axis.high = std::max(ratios.axis.high, ratio->high);
  }
  const double pad = 0.08 * std::max(ratios.axis.high - ratios.axis.low, 0.02);
  ratios.axis = {ratios.axis.low - pad, ratios.axis.high + pad};
  return ratios;
}

void ratio_row(Svg& svg, const Axis& axis, double y, const Row& row, const Ratio& ratio) {
  const std::string printed = fixed(ratio.median, 3);
  svg.text(gutter - 12, y + 5, "end label", shorten(row.label, 36), row.label);
  svg.line(axis.at(ratio.low), y, axis.at(ratio.high), y, "range");
  svg.rect({axis.at(ratio.median) - 4, y - 8, 8, 16}, "f-ours",
           text(row.label, ": ", printed, ", ", fixed(ratio.low, 3), " to ", fixed(ratio.high, 3)));
  svg.text(chart_width - 6, y + 5, "end value", printed);
}

}  // namespace

std::string gain_chart(const Group& group) {
  if (!group.first || !has_published(group)) return "";
  const std::vector<Gain> gains = gains_of(group);
  if (gains.empty()) return "";
  const Axis axis = axis_of(gains);
  const double height = 10 + row_height * static_cast<double>(gains.size()) + 26;
  Svg svg(chart_width, height, "Rate over the first row, ours and published");
  grid(svg, axis, height, " %");
  double y = 8;
  for (const Gain& gain : gains) {
    svg.text(gutter - 12, y + 20, "end label", shorten(gain.row->label, 36), gain.row->label);
    if (gain.ours) signed_bar(svg, axis, y, *gain.ours, "f-ours", "ours");
    if (gain.published)
      signed_bar(svg, axis, y + bar_height + 2, *gain.published, "f-published", "published");
    y += row_height;
  }
  svg.line(axis.at(0), 6, axis.at(0), height - 22, "axis");
  return legend(comparison_swatches()) + svg.str();
}

std::string ratio_chart(const Group& group) {
  if (!group.remat || group.kind == "simulated") return "";
  const Ratios ratios = ratios_of(group);
  if (ratios.rows.empty()) return "";
  const double height = 10 + 34 * static_cast<double>(ratios.rows.size()) + 26;
  Svg svg(chart_width, height, "Step time over that of the remat row");
  grid(svg, ratios.axis, height, "");
  svg.line(ratios.axis.at(1), 6, ratios.axis.at(1), height - 22, "axis");
  double y = 26;
  for (const auto& [row, ratio] : ratios.rows) {
    ratio_row(svg, ratios.axis, y, *row, ratio);
    y += 34;
  }
  return svg.str();
}

}  // namespace spillway
