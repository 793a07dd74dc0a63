// Memory: peak by role, and live bytes over the step.
#include <algorithm>
#include <cmath>

#include "harness/error.h"
#include "reports/charts.h"
#include "reports/palette.h"
#include "reports/svg.h"

namespace spillway {

namespace {

using nlohmann::json;

constexpr double gutter = 250, margin = 130;
constexpr double plot = chart_width - gutter - margin;
constexpr double row_height = 34, bar_height = 22;

// Bytes of each role, in the order of role_swatches().
using Stack = std::vector<double>;

Stack stack_of(const json& by_role) {
  Stack stack;
  for (const Swatch& role : role_swatches()) {
    const auto found = by_role.find(role.key);
    const bool there = found != by_role.end() && found->is_number();
    stack.push_back(there ? std::max(0.0, found->get<double>()) : 0);
  }
  return stack;
}

double sum(const Stack& stack) {
  double total = 0;
  for (const double bytes : stack)
    total += bytes;
  return total;
}

Stack peak_of(const Row& row) {
  const auto found = row.result.find("peak_hbm_by_role");
  if (found == row.result.end() || !found->is_object()) return {};
  return stack_of(*found);
}

std::string roles_legend(const std::vector<Stack>& stacks) {
  std::vector<const Swatch*> used;
  for (size_t i = 0; i < role_swatches().size(); ++i) {
    const bool any = std::any_of(stacks.begin(), stacks.end(), [&](const Stack& stack) {
      return i < stack.size() && stack[i] > 0;
    });
    if (any) used.push_back(&role_swatches()[i]);
  }
  return legend(used);
}

void stacked_bar(Svg& svg, const Stack& stack, double y, double scale) {
  double x = gutter;
  for (size_t i = 0; i < stack.size(); ++i) {
    const double width = stack[i] * scale;
    if (width <= 0) continue;
    const Swatch& role = role_swatches()[i];
    const std::string size = byte_size(stack[i]);
    svg.rect({x, y, width, bar_height}, role.style_class, text(role.label, ": ", size));
    if (text_width(size, 11) + 8 < width)
      svg.text(x + width / 2, y + 15, "mid on-fill", size, text(role.label, ": ", size));
    x += width;
  }
}

void peak_row(Svg& svg, const Row& row, const Stack& stack, double y, double scale) {
  const bool fits = text_at(row, "status") != "oom";
  svg.text(gutter - 12, y + 16, "end label", shorten(row.label, 36), row.label);
  stacked_bar(svg, stack, y, scale);
  svg.text(gutter + sum(stack) * scale + 8, y + 16, fits ? "value" : "bad",
           byte_size(sum(stack)) + (fits ? "" : " oom"));
}

// One row's curve: time (or position) and a stack at each point; segments as bands.
struct Curve {
  std::vector<double> at;  // left end of each point's step; one more for the end of the last
  std::vector<Stack> stacks;
  std::vector<std::string> segments;  // of each point
  bool timed = false;                 // seconds, not positions
};

Curve curve_of(const Row& row) {
  Curve curve;
  const auto points = row.result.find("memory_curve");
  if (points == row.result.end() || !points->is_array() || points->empty()) return curve;
  curve.timed = std::all_of(points->begin(), points->end(), [](const json& point) {
    return point.contains("seconds") && point.at("seconds").is_number();
  });
  for (const json& point : *points) {
    const double position = static_cast<double>(curve.stacks.size());
    curve.at.push_back(curve.timed ? point.at("seconds").get<double>() : position);
    curve.stacks.push_back(stack_of(point.value("bytes", json::object())));
    const auto segment = point.find("segment");
    const bool named = segment != point.end() && segment->is_string();
    curve.segments.push_back(named ? segment->get<std::string>() : "");
  }
  const double end = figure_at(row, "step_seconds.median").value_or(0);
  const auto count = static_cast<double>(curve.stacks.size());
  curve.at.push_back(curve.timed ? std::max(end, curve.at.back()) : count);
  return curve;
}

// At most `limit` points: of each run of neighbours the one with most bytes stands for all, so that
// no peak is lost.
Curve thinned(Curve curve, size_t limit) {
  const size_t n = curve.stacks.size();
  if (n <= limit) return curve;
  Curve thin;
  thin.timed = curve.timed;
  for (size_t i = 0; i < limit; ++i) {
    const size_t begin = i * n / limit, end = (i + 1) * n / limit;
    size_t most = begin;
    for (size_t j = begin; j < end; ++j)
      if (sum(curve.stacks[j]) > sum(curve.stacks[most])) most = j;
    thin.at.push_back(curve.at[begin]);
    thin.stacks.push_back(curve.stacks[most]);
    thin.segments.push_back(curve.segments[begin]);
  }
  thin.at.push_back(curve.at.back());
  return thin;
}

struct Frame {
  double left = 62, top = 14, width = 440, height = 170;
};

using Points = std::vector<std::pair<double, double>>;

// A point of a line of steps; where the line goes on level, its last point moves instead.
void extend(Points& line, double x, double y) {
  const size_t n = line.size();
  const bool level = n >= 2 && line[n - 1].second == y && line[n - 2].second == y;
  if (level)
    line.back().first = x;
  else
    line.emplace_back(x, y);
}

// The area of a role between the roles below it and its own top, as steps.
Points area(const Curve& curve, size_t role, const Frame& frame, double x_scale, double y_scale) {
  Points top, bottom;
  for (size_t i = 0; i < curve.stacks.size(); ++i) {
    double below = 0;
    for (size_t j = 0; j < role; ++j)
      below += curve.stacks[i][j];
    const double above = below + curve.stacks[i][role];
    for (const double at : {curve.at[i], curve.at[i + 1]}) {
      const double x = frame.left + (at - curve.at.front()) * x_scale;
      extend(top, x, frame.top + frame.height - above * y_scale);
      extend(bottom, x, frame.top + frame.height - below * y_scale);
    }
  }
  top.insert(top.end(), bottom.rbegin(), bottom.rend());
  return top;
}

void segment_names(Svg& svg, const Curve& curve, const Frame& frame, double x_scale) {
  for (size_t begin = 0, end = 0; begin < curve.segments.size(); begin = end) {
    while (end < curve.segments.size() && curve.segments[end] == curve.segments[begin])
      ++end;
    const double left = frame.left + (curve.at[begin] - curve.at.front()) * x_scale;
    const double right = frame.left + (curve.at[end] - curve.at.front()) * x_scale;
    const double y = frame.top + frame.height;
    if (begin > 0) svg.line(left, frame.top, left, y + 5, "grid");
    const auto room = static_cast<int64_t>((right - left - 6) / 6.2);
    if (room >= 4)
      svg.text((left + right) / 2, y + 15, "mid tick", shorten(curve.segments[begin], room),
               curve.segments[begin]);
  }
}

void byte_grid(Svg& svg, const Frame& frame, double most) {
  const double unit = most >= bytes_per_gib ? bytes_per_gib : 1024.0 * 1024.0;
  const double step = nice_step(most / unit, 4);
  for (double value = 0; value <= most / unit * 1.001; value += step) {
    const double y = frame.top + frame.height * (1 - value * unit / most);
    svg.line(frame.left, y, frame.left + frame.width, y, "grid");
    svg.text(frame.left - 6, y + 4, "end tick",
             plain(value) + (unit == bytes_per_gib ? " GiB" : " MiB"));
  }
}

std::string curve_picture(const Row& row, const Curve& curve, double most) {
  const Frame frame;
  Svg svg(frame.left + frame.width + 10, frame.top + frame.height + 24,
          "Device memory over the step of " + row.label);
  const double x_scale = frame.width / std::max(curve.at.back() - curve.at.front(), 1e-30);
  byte_grid(svg, frame, most);
  for (size_t role = 0; role < role_swatches().size(); ++role) {
    double peak = 0;
    for (const Stack& stack : curve.stacks)
      peak = std::max(peak, stack[role]);
    if (peak <= 0) continue;
    const Swatch& swatch = role_swatches()[role];
    svg.polygon(area(curve, role, frame, x_scale, frame.height / most), swatch.style_class,
                text(swatch.label, ": at most ", byte_size(peak)));
  }
  segment_names(svg, curve, frame, x_scale);
  double peak = 0;
  for (const Stack& stack : curve.stacks)
    peak = std::max(peak, sum(stack));
  const std::string length = curve.timed ? ", step " + duration(curve.at.back()) : "";
  return text("<figure><figcaption>", html_escape(row.label), " <small>live at most ",
              byte_size(peak), length, "</small></figcaption>", svg.str(), "</figure>\n");
}

}  // namespace

std::string peak_chart(const Group& group) {
  std::vector<Stack> stacks;
  double most = 0;
  for (const Row* row : group.rows) {
    stacks.push_back(peak_of(*row));
    most = std::max(most, sum(stacks.back()));
  }
  if (most <= 0) return "";
  Svg svg(chart_width, 8 + row_height * static_cast<double>(stacks.size()), "Peak HBM by role");
  for (size_t i = 0; i < stacks.size(); ++i)
    if (sum(stacks[i]) > 0)
      peak_row(svg, *group.rows[i], stacks[i], 4 + row_height * static_cast<double>(i),
               plot / most);
  return roles_legend(stacks) + svg.str();
}

std::string memory_curves(const Group& group) {
  std::vector<Curve> curves;
  std::vector<Stack> all;
  double most = 0;
  for (const Row* row : group.rows) {
    curves.push_back(thinned(curve_of(*row), 300));
    for (const Stack& stack : curves.back().stacks)
      most = std::max(most, sum(stack));
    all.insert(all.end(), curves.back().stacks.begin(), curves.back().stacks.end());
  }
  if (most <= 0) return "";
  std::string out = roles_legend(all) + "<div class=\"pair\">\n";
  for (size_t i = 0; i < curves.size(); ++i)
    if (!curves[i].stacks.empty()) out += curve_picture(*group.rows[i], curves[i], most);
  return out + "</div>\n";
}

}  // namespace spillway
