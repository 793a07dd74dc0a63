// Time: what the compute lane's step consists of, and all lanes during one layer.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "harness/error.h"
#include "reports/charts.h"
#include "reports/palette.h"
#include "reports/svg.h"

namespace spillway {

namespace {

using nlohmann::json;

constexpr double gutter = 250, margin = 90;
constexpr double plot = chart_width - gutter - margin;
constexpr double row_height = 34, bar_height = 22;

// Seconds of each time swatch, by key.
using Shares = std::map<std::string_view, double>;

Shares shares_of(const Row& row) {
  Shares shares;
  const auto kinds = row.result.find("op_seconds");
  if (kinds == row.result.end() || !kinds->is_object()) return shares;
  for (const auto& [kind, seconds] : kinds->items())
    if (seconds.is_number()) shares[time_swatch_of_op(kind).key] += seconds.get<double>();
  shares["wait"] = figure_at(row, "compute_lane.waiting_seconds").value_or(0);
  shares["idle"] = figure_at(row, "compute_lane.idle_seconds").value_or(0);
  return shares;
}

double sum(const Shares& shares) {
  double total = 0;
  for (const auto& [key, seconds] : shares)
    total += seconds;
  return total;
}

void share_row(Svg& svg, const Row& row, const Shares& shares, double y, double scale) {
  svg.text(gutter - 12, y + 16, "end label", shorten(row.label, 36), row.label);
  const double total = sum(shares);
  double x = gutter;
  for (const Swatch& swatch : time_swatches()) {
    const auto found = shares.find(swatch.key);
    if (found == shares.end() || found->second <= 0) continue;
    const double width = found->second * scale;
    const std::string percent = fixed(found->second / total * 100, 1) + " %";
    const std::string title = text(swatch.label, ": ", duration(found->second), ", ", percent);
    svg.rect({x, y, width, bar_height}, swatch.style_class, title);
    const bool pale =
        swatch.key == std::string_view("wait") || swatch.key == std::string_view("idle");
    if (text_width(percent, 11) + 8 < width)
      svg.text(x + width / 2, y + 15, pale ? "mid small" : "mid on-fill", percent, title);
    x += width;
  }
  svg.text(x + 8, y + 16, "value", duration(total));
}

std::vector<const Swatch*> used_swatches(const std::vector<Shares>& all) {
  std::vector<const Swatch*> used;
  for (const Swatch& swatch : time_swatches()) {
    const bool any = std::any_of(all.begin(), all.end(), [&](const Shares& shares) {
      const auto found = shares.find(swatch.key);
      return found != shares.end() && found->second > 0;
    });
    if (any) used.push_back(&swatch);
  }
  return used;
}

}  // namespace

std::string time_chart(const Group& group) {
  std::vector<Shares> all;
  double most = 0;
  for (const Row* row : group.rows) {
    all.push_back(shares_of(*row));
    most = std::max(most, sum(all.back()));
  }
  if (most <= 0) return "";
  const auto shown =
      std::count_if(all.begin(), all.end(), [](const Shares& s) { return sum(s) > 0; });
  Svg svg(chart_width, 8 + row_height * static_cast<double>(shown), "Time of a step by kind of op");
  double y = 4;
  for (size_t i = 0; i < all.size(); ++i) {
    if (sum(all[i]) <= 0) continue;
    share_row(svg, *group.rows[i], all[i], y, plot / most);
    y += row_height;
  }
  return legend(used_swatches(all)) + svg.str();
}

}  // namespace spillway
