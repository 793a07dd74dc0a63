// Rate against peak memory: where rows of different micro batches meet.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "harness/error.h"
#include "reports/charts.h"
#include "reports/palette.h"
#include "reports/svg.h"

namespace spillway {

namespace {

constexpr double left = 74, right = 30, top = 28, bottom = 46;
constexpr double height = 460, half_mark = 5;

// One colour a policy, in order of appearance; more than these share the last.
constexpr std::array colours =
    std::to_array<const char*>({"f-matmul", "f-kept", "f-activations", "f-flight", "f-logits",
                                "f-gathered", "f-workspace", "f-gradients", "f-other"});

struct Mark {
  const Row* row;
  double peak, rate;  // GiB, TFLOPs/s/device
  size_t policy;      // index into Scatter::policies
};

// The rows of one model on so many devices, whatever their micro batch.
struct Scatter {
  const Row* first;
  std::vector<Mark> marks;  // by peak
  std::vector<std::string> policies;
  int64_t without_rate = 0;  // out of memory, failed
};

bool belongs(const Row& a, const Row& b) {
  if (kind_of(a) != kind_of(b)) return false;
  for (const char* key : {"model", "devices", "seq", "layers"})
    if (config_of(a, key) != config_of(b, key)) return false;
  return true;
}

size_t index_in(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  const auto index = static_cast<size_t>(found - names.begin());
  if (index == names.size()) names.push_back(name);
  return index;
}

void add(Scatter& scatter, const Row& row) {
  const Number peak = figure_at(row, "peak_hbm_bytes");
  const Number rate = figure_at(row, "tflops_per_s_per_device");
  if (!counts(row) || !peak) {
    ++scatter.without_rate;
    return;
  }
  const size_t policy = index_in(scatter.policies, config_of(row, "policy"));
  scatter.marks.push_back({&row, *peak / bytes_per_gib, *rate, policy});
}

// Those with marks of more than one micro batch: the rest is told by the pictures of a group.
std::vector<Scatter> scatters_of(const std::vector<Row>& rows) {
  std::vector<Scatter> scatters;
  for (const Row& row : rows) {
    auto own = std::find_if(scatters.begin(), scatters.end(),
                            [&](const Scatter& other) { return belongs(*other.first, row); });
    if (own == scatters.end()) own = scatters.insert(own, Scatter{&row, {}, {}});
    add(*own, row);
  }
  std::erase_if(scatters, [](const Scatter& scatter) {
    std::set<std::string> batches;
    for (const Mark& mark : scatter.marks)
      batches.insert(config_of(*mark.row, "micro_batch"));
    return batches.size() < 2;
  });
  for (Scatter& scatter : scatters)
    std::stable_sort(scatter.marks.begin(), scatter.marks.end(),
                     [](const Mark& a, const Mark& b) { return a.peak < b.peak; });
  return scatters;
}

// From round value to round value around all marks.
struct Axis {
  double low = 0, high = 0, step = 1, begin = 0, end = 0;
  double at(double value) const { return begin + (value - low) / (high - low) * (end - begin); }
};

Axis axis_over(const std::vector<Mark>& marks, double Mark::*figure, double begin, double end) {
  const auto [least, most] =
      std::minmax_element(marks.begin(), marks.end(),
                          [&](const Mark& a, const Mark& b) { return a.*figure < b.*figure; });
  const double low = (*least).*figure, high = (*most).*figure;
  const double step = nice_step(std::max(high - low, 0.02 * std::max(high, 1e-9)), 8);
  Axis axis{std::floor(low / step) * step, std::ceil(high / step) * step, step, begin, end};
  if (axis.low == axis.high) axis.high += step;
  return axis;
}

void frame(Svg& svg, const Axis& x, const Axis& y) {
  const auto ticks = [](const Axis& axis) {
    return static_cast<int>(std::lround((axis.high - axis.low) / axis.step));
  };
  for (int i = 0; i <= ticks(x); ++i) {
    const double value = x.low + i * x.step;
    svg.line(x.at(value), y.end, x.at(value), y.begin, "grid");
    svg.text(x.at(value), y.begin + 16, "mid tick", plain(value));
  }
  for (int i = 0; i <= ticks(y); ++i) {
    const double value = y.low + i * y.step;
    svg.line(x.begin, y.at(value), x.end, y.at(value), "grid");
    svg.text(x.begin - 8, y.at(value) + 4, "end tick", plain(value));
  }
  svg.text((x.begin + x.end) / 2, y.begin + 36, "mid small", "peak HBM, GiB");
  svg.text(4, 10, "small", "TFLOPs/s/device");
}

// Up and to the right along the rows that none of a lower peak outruns.
void frontier(Svg& svg, const Scatter& scatter, const Axis& x, const Axis& y) {
  const Mark* best = nullptr;
  for (const Mark& mark : scatter.marks) {
    if (best && mark.rate <= best->rate) continue;
    if (best) {
      svg.line(x.at(best->peak), y.at(best->rate), x.at(mark.peak), y.at(best->rate), "axis");
      svg.line(x.at(mark.peak), y.at(best->rate), x.at(mark.peak), y.at(mark.rate), "axis");
    }
    best = &mark;
  }
  if (best) svg.line(x.at(best->peak), y.at(best->rate), x.end, y.at(best->rate), "axis");
}

// A triangle is pipelined (downwards: without LHS), a square has LHS alone, a diamond neither.
void draw(Svg& svg, const Mark& mark, const Axis& x, const Axis& y) {
  const char* const colour = colours[std::min(mark.policy, colours.size() - 1)];
  const double cx = x.at(mark.peak), cy = y.at(mark.rate), r = half_mark;
  const std::string batch = config_of(*mark.row, "micro_batch");
  const std::string title = text(mark.row->label, ": ", significant(mark.rate, 4),
                                 " TFLOPs/s/device at ", fixed(mark.peak, 1), " GiB");
  const bool lhs = config_on(*mark.row, "lhs");
  if (config_on(*mark.row, "pipeline")) {
    const double base = lhs ? cy + r : cy - r, tip = lhs ? cy - r - 1 : cy + r + 1;
    svg.polygon({{cx - r, base}, {cx, tip}, {cx + r, base}}, colour, title);
  } else if (lhs) {
    svg.rect({cx - r, cy - r, 2 * r, 2 * r}, colour, title);
  } else {
    svg.polygon({{cx - r - 1, cy}, {cx, cy - r - 1}, {cx + r + 1, cy}, {cx, cy + r + 1}}, colour,
                title);
  }
  svg.text(cx + r + 3, cy + 4, "small", batch);
}

std::string legend_of(const Scatter& scatter) {
  std::vector<Swatch> swatches;
  for (size_t i = 0; i < scatter.policies.size(); ++i)
    swatches.push_back({scatter.policies[i].c_str(), colours[std::min(i, colours.size() - 1)],
                        scatter.policies[i].c_str()});
  std::vector<const Swatch*> pointers;
  for (const Swatch& swatch : swatches)
    pointers.push_back(&swatch);
  return legend(pointers);
}

std::string picture(const Scatter& scatter) {
  const Axis x = axis_over(scatter.marks, &Mark::peak, left, chart_width - right);
  const Axis y = axis_over(scatter.marks, &Mark::rate, height - bottom, top);
  Svg svg(chart_width, height, "Rate against peak memory");
  frame(svg, x, y);
  frontier(svg, scatter, x, y);
  for (const Mark& mark : scatter.marks)
    draw(svg, mark, x, y);
  std::string caption = text(config_of(*scatter.first, "model"), ", ", kind_of(*scatter.first));
  if (scatter.without_rate > 0)
    caption += text("; ", scatter.without_rate, " more without a rate (out of memory, failed)");
  return "<figure><figcaption>" + html_escape(caption) + "</figcaption>" + legend_of(scatter) +
         "<div class=\"scroll\">" + svg.str() + "</div></figure>\n";
}

}  // namespace

std::string scatter_charts(const std::vector<Row>& rows) {
  std::string out;
  for (const Scatter& scatter : scatters_of(rows))
    out += picture(scatter);
  return out;
}

}  // namespace spillway
