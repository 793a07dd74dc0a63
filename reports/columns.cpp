// The columns of a result table.
#include "reports/columns.h"

#include <array>

namespace spillway {

namespace {

Number over_first(const Row& row, const Group& group) {
  if (!group.first) return std::nullopt;
  return percent_over(figure_at(row, "tflops_per_s_per_device"),
                      figure_at(*group.first, "tflops_per_s_per_device"));
}

Number published_over_first(const Row& row, const Group& group) {
  if (!group.first || !group.first->published || !row.published) return std::nullopt;
  return percent_over(row.published->tflops_per_s_per_device,
                      group.first->published->tflops_per_s_per_device);
}

std::string proxy_over_base(const Row& row, const Group& group) {
  const auto ratio = proxy_ratio(row, group);
  if (!ratio) return "";
  const Ratio& ours = ratio->ours;
  return fixed(ours.median, 3) + " (" + fixed(ours.low, 3) + "\u2013" + fixed(ours.high, 3) + ")";
}
Number published_proxy_over_base(const Row& row, const Group& group) {
  const auto ratio = proxy_ratio(row, group);
  return ratio ? ratio->published : std::nullopt;
}

Number over_remat(const Row& row, const Group& group) {
  const auto ratio = group.remat ? step_ratio(row, *group.remat) : std::nullopt;
  return ratio ? Number(ratio->median) : std::nullopt;
}

// One direction's figure; a run that moves nothing has nothing to hide: blank, not 0.
Number traffic(const Row& row, const char* direction, double Traffic::*member) {
  const auto sum = traffic_of(row, direction);
  return sum && sum->bytes > 0 ? Number((*sum).*member) : std::nullopt;
}
Number exposed_writes(const Row& row, const Group&) {
  return traffic(row, "d2h", &Traffic::exposed);
}
Number exposed_reads(const Row& row, const Group&) {
  return traffic(row, "h2d", &Traffic::exposed);
}
Number hidden_writes(const Row& row, const Group& group) {
  return hidden_percent(traffic(row, "d2h", &Traffic::seconds), exposed_writes(row, group));
}
Number hidden_reads(const Row& row, const Group& group) {
  return hidden_percent(traffic(row, "h2d", &Traffic::seconds), exposed_reads(row, group));
}
Number hidden(const Row& row, const Group&) { return hidden_percent(row); }

Number transfer(const Row& row, const Group&) {
  const Number moved = transfer_seconds(row);
  return moved && *moved > 0 ? moved : Number();
}
Number exposed(const Row& row, const Group& group) {
  return transfer(row, group) ? figure_at(row, "exposed_transfer_seconds") : std::nullopt;
}

Number published_rate(const Row& row, const Group&) {
  return row.published ? row.published->tflops_per_s_per_device : Number();
}
Number published_peak(const Row& row, const Group&) {
  return row.published ? row.published->peak_hbm_gib : Number();
}
Number error_figure(const Row& row, const Group&) { return error_percent(row); }

// Blank where the whole of the plan is used.
Number used_peak(const Row& row, const Group&) {
  const Number used = figure_at(row, "peak_hbm_bytes_used");
  if (!used || used == figure_at(row, "peak_hbm_bytes")) return std::nullopt;
  return *used / bytes_per_gib;
}

// "128 / 48" in whole rows, or blank where a figure is missing.
std::string beside(Number a, Number b) { return a && b ? fixed(a, 0) + " / " + fixed(b, 0) : ""; }
std::string expert_rows(const Row& row, const Group&) {
  return beside(figure_at(row, "routing.expert_rows.max"),
                figure_at(row, "routing.expert_rows.mean"));
}
// One rank has its own rows, no more and no less.
std::string rank_rows(const Row& row, const Group&) {
  const std::string ranks = config_of(row, "expert_parallel");
  if (ranks.empty() || ranks == "1") return "";
  return beside(figure_at(row, "routing.rank_rows.max"),
                figure_at(row, "routing.rank_rows.planned"));
}

std::string spread_of(const Row& row, const Group&) {
  const Number least = figure_at(row, "step_seconds.min"),
               most = figure_at(row, "step_seconds.max");
  const Number n = figure_at(row, "step_seconds.n");
  if (!least || !most || !n || *n < 2) return "";
  return significant(least, 4) + "\u2013" + significant(most, 4) + ", n=" + fixed(n, 0);
}

std::string error_of(const Row& row, const Group&) {
  if (is_fitted_row(row)) return "fitted";
  return with_sign(error_percent(row), 2);
}

std::string label(const Row& row, const Group&) { return row.label; }
std::string kind(const Row& row, const Group&) { return kind_of(row); }
std::string model(const Row& row, const Group&) { return config_of(row, "model"); }
std::string status(const Row& row, const Group&) { return status_of(row); }
std::string reason(const Row& row, const Group&) { return text_at(row, "reason"); }
std::string fitted_figure(const Row& row, const Group&) { return text_at(row, "fitted.figure"); }
std::string fitted_on(const Row& row, const Group&) { return text_at(row, "fitted.on"); }
std::string published_id(const Row& row, const Group&) {
  return row.published ? row.published->id : "";
}
std::string checked(const Row& row, const Group&) {
  return row.result.value("checked", false) ? "yes" : "no";
}

constexpr double per_gib = 1 / bytes_per_gib;
constexpr double per_tera = 1e-12;

// In the order of the printed tables; CSV keeps it.
constexpr std::array all_columns = std::to_array<Column>({
    {.view = View::rates, .key = "label", .title = "run", .text = label},
    {.key = "kind", .text = kind},
    {.key = "model", .text = model},
    {.view = View::rates, .key = "status", .title = "status", .text = status},
    {.view = View::rates,
     .key = "step_seconds_median",
     .title = "step",
     .unit = "s",
     .path = "step_seconds.median",
     .print = Print::significant,
     .digits = 5},
    {.view = View::rates,
     .key = "step_seconds_spread",
     .title = "min\u2013max, n",
     .unit = "s",
     .text = spread_of},
    {.key = "step_seconds_min", .path = "step_seconds.min"},
    {.key = "step_seconds_max", .path = "step_seconds.max"},
    {.key = "step_seconds_n", .path = "step_seconds.n"},
    {.view = View::rates,
     .key = "tflops_per_s_per_device",
     .title = "TFLOPs/s/device",
     .path = "tflops_per_s_per_device",
     .print = Print::significant,
     .digits = 4},
    {.view = View::rates,
     .key = "published_tflops_per_s_per_device",
     .title = "published",
     .figure = published_rate,
     .print = Print::significant,
     .digits = 4},
    {.view = View::rates, .key = "error", .title = "error", .unit = "%", .text = error_of},
    {.key = "error_percent", .figure = error_figure},
    {.view = View::rates,
     .key = "over_first_row_percent",
     .title = "vs. first",
     .unit = "%",
     .figure = over_first,
     .print = Print::with_sign,
     .digits = 2},
    {.view = View::rates,
     .key = "published_over_first_row_percent",
     .title = "published",
     .unit = "%",
     .figure = published_over_first,
     .print = Print::with_sign,
     .digits = 2},
    {.view = View::rates,
     .key = "rate_over_remat",
     .title = "rate : remat (range)",
     .text = proxy_over_base},
    {.view = View::rates,
     .key = "published_rate_over_remat",
     .title = "published",
     .figure = published_proxy_over_base,
     .digits = 3},
    {.key = "step_over_remat", .figure = over_remat},
    {.view = View::rates,
     .key = "tflops_per_s_per_device_full_attention",
     .title = "full square",
     .path = "tflops_per_s_per_device_full_attention",
     .print = Print::significant,
     .digits = 4},
    {.view = View::rates,
     .key = "tokens_per_s_per_device",
     .title = "tokens/s/device",
     .path = "tokens_per_s_per_device",
     .print = Print::significant,
     .digits = 4},
    {.view = View::rates,
     .key = "projected_step_seconds",
     .title = "projected, all layers",
     .unit = "s",
     .path = "projected.step_seconds",
     .print = Print::significant,
     .digits = 5},
    {.view = View::rates,
     .key = "projected_tflops_per_s_per_device",
     .title = "projected TFLOPs/s/device",
     .path = "projected.tflops_per_s_per_device",
     .print = Print::significant,
     .digits = 4},
    {.view = View::costs,
     .key = "executed_matmul_tflop",
     .title = "executed",
     .unit = "TFLOP",
     .path = "executed_matmul_flops",
     .factor = per_tera,
     .print = Print::significant,
     .digits = 4},
    {.view = View::costs,
     .key = "peak_hbm_gib",
     .title = "peak HBM",
     .unit = "GiB",
     .path = "peak_hbm_bytes",
     .factor = per_gib,
     .print = Print::significant,
     .digits = 5},
    {.view = View::costs,
     .key = "peak_hbm_used_gib",
     .title = "peak HBM used",
     .unit = "GiB",
     .figure = used_peak,
     .print = Print::significant,
     .digits = 5},
    {.view = View::costs,
     .key = "published_peak_hbm_gib",
     .title = "published",
     .unit = "GiB",
     .figure = published_peak,
     .digits = 1},
    {.view = View::costs,
     .key = "host_gib",
     .title = "host asked",
     .unit = "GiB",
     .path = "host_bytes",
     .factor = per_gib,
     .print = Print::significant,
     .digits = 5},
    {.view = View::costs,
     .key = "host_reserved_gib",
     .title = "reserved",
     .unit = "GiB",
     .path = "host_bytes_reserved",
     .factor = per_gib,
     .print = Print::significant,
     .digits = 5},
    {.view = View::costs,
     .key = "offloaded_gib_per_step",
     .title = "offloaded",
     .unit = "GiB/step",
     .path = "offloaded_bytes_per_step",
     .factor = per_gib,
     .print = Print::significant,
     .digits = 5},
    {.view = View::costs,
     .key = "transfer_seconds",
     .title = "transfer",
     .unit = "s",
     .figure = transfer,
     .digits = 3},
    {.view = View::costs,
     .key = "exposed_transfer_seconds",
     .title = "exposed",
     .unit = "s",
     .figure = exposed,
     .digits = 3},
    {.view = View::costs,
     .key = "exposed_write_seconds",
     .title = "exposed writes",
     .unit = "s",
     .figure = exposed_writes,
     .digits = 3},
    {.view = View::costs,
     .key = "exposed_read_seconds",
     .title = "exposed reads",
     .unit = "s",
     .figure = exposed_reads,
     .digits = 3},
    {.view = View::costs,
     .key = "hidden_percent",
     .title = "hidden",
     .unit = "%",
     .figure = hidden,
     .digits = 1},
    {.key = "hidden_write_percent", .figure = hidden_writes},
    {.key = "hidden_read_percent", .figure = hidden_reads},
    {.view = View::costs,
     .key = "expert_rows_max_mean",
     .title = "rows of an expert",
     .unit = "max / mean",
     .text = expert_rows},
    {.view = View::costs,
     .key = "rank_rows_max_planned",
     .title = "rows of a rank",
     .unit = "max / planned",
     .text = rank_rows},
    {.view = View::costs,
     .key = "dropped_percent",
     .title = "dropped",
     .unit = "%",
     .path = "routing.dropped_share",
     .factor = 100,
     .digits = 2},
    {.key = "expert_rows_max", .path = "routing.expert_rows.max"},
    {.key = "expert_rows_mean", .path = "routing.expert_rows.mean"},
    {.key = "rank_rows_max", .path = "routing.rank_rows.max"},
    {.key = "rank_rows_planned", .path = "routing.rank_rows.planned"},
    {.key = "link_bytes_per_second", .path = "link_bytes_per_second"},
    {.key = "checked", .text = checked},
    {.key = "fitted_figure", .text = fitted_figure},
    {.key = "fitted_value", .path = "fitted.value"},
    {.key = "fitted_on", .text = fitted_on},
    {.key = "published_id", .text = published_id},
    {.key = "reason", .text = reason},
});

}  // namespace

std::span<const Column> columns() { return all_columns; }

Number figure_of(const Column& column, const Row& row, const Group& group) {
  if (column.figure) return column.figure(row, group);
  if (!column.path) return std::nullopt;
  const Number value = figure_at(row, column.path);
  return value ? Number(*value * column.factor) : std::nullopt;
}

std::string cell(const Column& column, const Row& row, const Group& group) {
  if (column.text) return column.text(row, group);
  const Number value = figure_of(column, row, group);
  switch (column.print) {
    case Print::fixed:
      return fixed(value, column.digits);
    case Print::significant:
      return significant(value, column.digits);
    case Print::with_sign:
      return with_sign(value, column.digits);
  }
  return "";
}

std::vector<const Column*> columns_of(View view, const Group& group) {
  std::vector<const Column*> shown;
  for (const Column& column : all_columns) {
    if (column.view != view) continue;
    bool any = false;
    for (const Row* row : group.rows)
      any = any || !cell(column, *row, group).empty();
    if (any) shown.push_back(&column);
  }
  return shown;
}

std::string status_of(const Row& row) {
  const std::string status = text_at(row, "status");
  if (status != "ok") return status;
  if (!figure_at(row, "tflops_per_s_per_device")) return "ok, invalid";
  const bool computed = kind_of(row) != "simulated";
  return computed && !row.result.value("checked", false) ? "ok, unchecked" : status;
}

}  // namespace spillway
