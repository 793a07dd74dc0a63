// All lanes during one forward and one backward layer.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "harness/error.h"
#include "reports/charts.h"
#include "reports/palette.h"
#include "reports/svg.h"

namespace spillway {

namespace {

using nlohmann::json;

constexpr double gutter = 78, gap = 26, top = 20;
constexpr double plot = chart_width - gutter - gap - 8;
constexpr double lane_height = 24, lane_pitch = 29;

struct LaneName {
  std::string_view key;
  const char* label;
};
constexpr std::array lanes = std::to_array<LaneName>(
    {{"compute", "compute"}, {"d2h", "D2H"}, {"h2d", "H2D"}, {"collective", "collective"}});

struct LayerSpan {
  size_t lane = 0;
  bool wait = false;
  std::string name, op, on;
  double begin = 0, end = 0;
};

struct Layer {
  std::string segment;
  std::vector<LayerSpan> spans;
  double seconds() const {
    double end = 0;
    for (const LayerSpan& span : spans)
      end = std::max(end, span.end);
    return end;
  }
};

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

double number_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

size_t lane_of(std::string name) {
  for (char& c : name)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto found = std::find_if(lanes.begin(), lanes.end(),
                                  [&](const LaneName& lane) { return lane.key == name; });
  return static_cast<size_t>(found - lanes.begin());
}

Layer layer_of(const json& entry) {
  Layer layer{text_of(entry, "segment"), {}};
  const auto spans = entry.find("spans");
  if (spans == entry.end() || !spans->is_array()) return layer;
  for (const json& span : *spans) {
    const size_t lane = span.is_object() ? lane_of(text_of(span, "lane")) : lanes.size();
    if (lane == lanes.size()) continue;
    layer.spans.push_back({lane, text_of(span, "kind") == "wait", text_of(span, "name"),
                           text_of(span, "op"), text_of(span, "on"), number_of(span, "begin"),
                           number_of(span, "end")});
  }
  return layer;
}

std::vector<Layer> layers_of(const Row& row) {
  std::vector<Layer> layers;
  const auto timeline = row.result.find("timeline");
  if (timeline == row.result.end() || !timeline->is_array()) return layers;
  for (const json& entry : *timeline)
    layers.push_back(layer_of(entry));
  return layers;
}

double seconds_of(const std::vector<Layer>& layers) {
  double total = 0;
  for (const Layer& layer : layers)
    total += layer.seconds();
  return total;
}

const Swatch& swatch_of(const LayerSpan& span) {
  if (span.wait) return time_swatch("wait");
  if (span.lane > 0) return time_swatch(lanes[span.lane].key);
  return time_swatch_of_op(span.op);
}

std::string tooltip(const LayerSpan& span) {
  const std::string on = span.on.empty() ? "" : " on " + span.on;
  const std::string what = span.wait ? text("waiting", on, " for ", span.name) : span.name;
  return text(what, ": ", duration(span.end - span.begin), ", from ", duration(span.begin));
}

void draw(Svg& svg, const LayerSpan& span, double left, double y, double scale) {
  const double x = left + span.begin * scale;
  const double width = std::max((span.end - span.begin) * scale, 0.4);
  const double height = lane_height;
  const std::string title = tooltip(span);
  svg.rect({x, y, width, height}, std::string("span ") + swatch_of(span).style_class, title);
  const std::string label = span.wait ? "wait" : span.name;
  const auto room = static_cast<int64_t>((width - 4) / (0.58 * 10));
  if (room < 3 || (characters(label) > room && room < 6)) return;
  svg.text(x + width / 2, y + 16, span.wait ? "mid on-wait" : "mid on-span", shorten(label, room),
           title);
}

// Lanes that some row of the group uses; compute always.
using Shown = std::vector<size_t>;

Shown lanes_used(const std::vector<std::vector<Layer>>& rows) {
  Shown shown;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    bool any = lane == 0;
    for (const auto& layers : rows)
      for (const Layer& layer : layers)
        for (const LayerSpan& span : layer.spans)
          any = any || (span.lane == lane && !span.wait);
    if (any) shown.push_back(lane);
  }
  return shown;
}

std::string title_of(const Layer& layer) {
  return text(layer.segment.empty() ? "layer" : layer.segment, ", ", duration(layer.seconds()));
}

// A layer may be shorter than its title.
double panel_width(const Layer& layer, double scale) {
  return std::max(layer.seconds() * scale, text_width(title_of(layer), 11));
}

// Units a second, so that the longest row fits.
double scale_of(const std::vector<std::vector<Layer>>& rows, double most) {
  double scale = plot / most;
  const auto fits = [&](const std::vector<Layer>& layers) {
    double width = 0;
    for (const Layer& layer : layers)
      width += panel_width(layer, scale);
    return width <= plot;
  };
  for (int i = 0; i < 20 && !std::all_of(rows.begin(), rows.end(), fits); ++i)
    scale *= 0.96;
  return scale;
}

double lane_top(size_t i) { return top + lane_pitch * static_cast<double>(i); }

void draw_layer(Svg& svg, const Layer& layer, double left, const Shown& shown, double scale) {
  const double seconds = layer.seconds(), width = seconds * scale;
  svg.text(left, top - 7, "small", title_of(layer));
  for (size_t i = 0; i < shown.size(); ++i)
    svg.rect({left, lane_top(i), width, lane_height}, "lane");
  const double bottom = lane_top(shown.size());
  const double step = nice_step(plot / scale, 10);
  for (int tick = 0; tick * step <= seconds; ++tick) {
    const double x = left + tick * step * scale;
    svg.line(x, top - 2, x, bottom, "tickline");
    svg.text(x, bottom + 11, "mid tick", tick == 0 ? "0" : plain_duration(tick * step));
  }
  for (size_t i = 0; i < shown.size(); ++i)
    for (const LayerSpan& span : layer.spans)
      // A copy lane's own waits say nothing that an empty lane does not.
      if (span.lane == shown[i] && (span.lane == 0 || !span.wait))
        draw(svg, span, left, lane_top(i), scale);
}

std::string picture(const Row& row, const std::vector<Layer>& layers, const Shown& shown,
                    double scale) {
  Svg svg(chart_width, lane_top(shown.size()) + 16, "Lanes during one layer of " + row.label);
  for (size_t i = 0; i < shown.size(); ++i)
    svg.text(gutter - 10, lane_top(i) + 16, "end small", lanes[shown[i]].label);
  double left = gutter;
  for (const Layer& layer : layers) {
    draw_layer(svg, layer, left, shown, scale);
    left += panel_width(layer, scale) + gap;
  }
  return text("<figure><figcaption>", html_escape(row.label), "</figcaption>", svg.str(),
              "</figure>\n");
}

std::string timeline_legend(const std::vector<std::vector<Layer>>& rows) {
  std::vector<const Swatch*> used;
  for (const Swatch& swatch : time_swatches()) {
    bool any = false;
    for (const auto& layers : rows)
      for (const Layer& layer : layers)
        for (const LayerSpan& span : layer.spans)
          any = any || (&swatch_of(span) == &swatch && (span.lane == 0 || !span.wait));
    if (any) used.push_back(&swatch);
  }
  return legend(used);
}

}  // namespace

std::string timelines(const Group& group) {
  std::vector<std::vector<Layer>> rows;
  double most = 0;
  for (const Row* row : group.rows) {
    rows.push_back(layers_of(*row));
    most = std::max(most, seconds_of(rows.back()));
  }
  if (most <= 0) return "";
  const Shown shown = lanes_used(rows);
  const double scale = scale_of(rows, most);
  std::string out = timeline_legend(rows);
  for (size_t i = 0; i < rows.size(); ++i)
    if (seconds_of(rows[i]) > 0) out += picture(*group.rows[i], rows[i], shown, scale);
  return out;
}

}  // namespace spillway
