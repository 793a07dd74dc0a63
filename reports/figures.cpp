// Derived figures.
#include "reports/figures.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace spillway {

namespace {

using nlohmann::json;

const json* at_path(const json& object, std::string_view path) {
  const json* value = &object;
  while (!path.empty()) {
    const size_t dot = std::min(path.find('.'), path.size());
    if (!value->is_object()) return nullptr;
    const auto found = value->find(std::string(path.substr(0, dot)));
    if (found == value->end()) return nullptr;
    value = &*found;
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return value;
}

Number finite(const json& value) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  return std::isfinite(number) ? Number(number) : std::nullopt;
}

Number finite_at(const json& object, const char* key) {
  const json* value = at_path(object, key);
  return value ? finite(*value) : std::nullopt;
}

std::string lower(std::string text) {
  for (char& c : text)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

int rank_of_kind(const std::string& kind) {
  static constexpr std::array<const char*, 3> order = {"measured", "projected", "simulated"};
  return static_cast<int>(std::find(order.begin(), order.end(), kind) - order.begin());
}

Number rate_of(const Row& row) { return figure_at(row, "tflops_per_s_per_device"); }
Number published_rate(const Row& row) {
  return row.published ? row.published->tflops_per_s_per_device : std::nullopt;
}

bool comparable(const Row* row) {
  return counts(*row) && published_rate(*row) && published_step_seconds(*row);
}

bool same_group(const Row& a, const Row& b) {
  if (kind_of(a) != kind_of(b)) return false;
  std::vector<const char*> keys = {"model", "devices", "micro_batch", "seq", "layers"};
  // Another machine or link is another prediction; executed, it is one more run on this machine.
  if (kind_of(a) == "simulated") keys.insert(keys.end(), {"machine", "link"});
  return std::all_of(keys.begin(), keys.end(),
                     [&](const char* key) { return config_of(a, key) == config_of(b, key); });
}

void choose_references(Group& group) {
  for (const Row* row : group.rows) {
    if (!counts(*row)) continue;
    if (!group.first) group.first = row;
    if (row->label == "remat") group.remat = row;
  }
  for (const Row* row : group.rows)
    if (!group.remat && counts(*row) && config_of(*row, "policy") == "full") group.remat = row;
}

// The remat row of another batch of the same model where a group has none.
void choose_base(Group& group, const std::vector<Group>& groups) {
  group.base = group.remat;
  for (const Group& other : groups) {
    const bool same_model = other.kind == group.kind && config_of(*other.rows.front(), "model") ==
                                                            config_of(*group.rows.front(), "model");
    if (!group.base && same_model) group.base = other.remat;
  }
}

std::vector<const Row*> comparable_rows(const Group& group) {
  std::vector<const Row*> rows;
  std::copy_if(group.rows.begin(), group.rows.end(), std::back_inserter(rows), comparable);
  return rows;
}

Difference difference(const Row& a, const Row& b) {
  return {&a, &b, *figure_at(a, "step_seconds.median") - *figure_at(b, "step_seconds.median"),
          *published_step_seconds(a) - *published_step_seconds(b)};
}

}  // namespace

Number figure_at(const Row& row, std::string_view path) {
  const json* value = at_path(row.result, path);
  return value ? finite(*value) : std::nullopt;
}

std::string text_at(const Row& row, std::string_view path) {
  const json* value = at_path(row.result, path);
  return value && value->is_string() ? value->get<std::string>() : "";
}

bool counts(const Row& row) { return text_at(row, "status") == "ok" && rate_of(row); }

std::string config_of(const Row& row, std::string_view key) {
  const json* config = at_path(row.result, "config");
  const json* value = config ? at_path(*config, key) : nullptr;
  if (!value || value->is_null()) return "";
  return value->is_string() ? value->get<std::string>() : value->dump();
}

bool config_on(const Row& row, std::string_view key) {
  const std::string value = config_of(row, key);
  return value == "on" || value == "true";
}

std::string kind_of(const Row& row) { return text_at(row, "kind"); }

Number percent_over(Number value, Number reference) {
  if (!value || !reference || *reference == 0) return std::nullopt;
  return (*value - *reference) / std::abs(*reference) * 100;
}

Number error_percent(const Row& row) { return percent_over(rate_of(row), published_rate(row)); }

bool is_fitted_row(const Row& row) {
  const std::string on = text_at(row, "fitted.on");
  return !on.empty() && (on == row.label || (row.published && on == row.published->id));
}

std::optional<Traffic> traffic_of(const Row& row, std::string_view direction) {
  const json* transfers = at_path(row.result, "transfers");
  if (!transfers || !transfers->is_array()) return std::nullopt;
  Traffic sum;
  for (const json& transfer : *transfers) {
    const json* way = at_path(transfer, "direction");
    if (!way || !way->is_string() || lower(way->get<std::string>()) != direction) continue;
    sum.bytes += finite_at(transfer, "bytes").value_or(0);
    sum.seconds += finite_at(transfer, "seconds").value_or(0);
    sum.exposed += finite_at(transfer, "exposed_seconds").value_or(0);
  }
  return sum;
}

Number transfer_seconds(const Row& row) {
  const auto writes = traffic_of(row, "d2h"), reads = traffic_of(row, "h2d");
  if (!writes || !reads) return std::nullopt;
  return writes->seconds + reads->seconds;
}

Number hidden_percent(Number transfer, Number exposed) {
  if (!transfer || !exposed || *transfer <= 0) return std::nullopt;
  return (1 - *exposed / *transfer) * 100;
}

Number hidden_percent(const Row& row) {
  return hidden_percent(transfer_seconds(row), figure_at(row, "exposed_transfer_seconds"));
}

std::optional<Ratio> step_ratio(const Row& row, const Row& base) {
  const auto of = [](const Row& r, const char* path) { return figure_at(r, path).value_or(0); };
  const char* const median = "step_seconds.median";
  const char* const least = "step_seconds.min";
  const char* const most = "step_seconds.max";
  for (const char* path : {median, least, most})
    if (of(row, path) <= 0 || of(base, path) <= 0) return std::nullopt;
  return Ratio{of(row, median) / of(base, median), of(row, least) / of(base, most),
               of(row, most) / of(base, least)};
}

Number published_step_seconds(const Row& row) {
  const Number rate = rate_of(row), published = published_rate(row);
  const Number seconds = figure_at(row, "step_seconds.median");
  if (!rate || !published || !seconds || *published <= 0) return std::nullopt;
  return *seconds * *rate / *published;
}

std::vector<Group> groups_of(const std::vector<Row>& rows) {
  std::vector<Group> groups;
  for (const Row& row : rows) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& candidate) {
      return same_group(*candidate.rows.front(), row);
    });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{kind_of(row), {}});
    group->rows.push_back(&row);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return rank_of_kind(a.kind) < rank_of_kind(b.kind);
  });
  for (Group& group : groups) {
    std::stable_partition(group.rows.begin(), group.rows.end(),
                          [](const Row* row) { return counts(*row); });
    choose_references(group);
  }
  for (Group& group : groups)
    choose_base(group, groups);
  return groups;
}

bool has_published(const Group& group) {
  return std::any_of(group.rows.begin(), group.rows.end(),
                     [](const Row* row) { return published_rate(*row).has_value(); });
}

std::optional<RateRatio> proxy_ratio(const Row& row, const Group& group) {
  if (!group.base || !row.stands_for) return std::nullopt;
  const Number rate = rate_of(row), base = rate_of(*group.base);
  const auto seconds = step_ratio(row, *group.base);
  if (!rate || !base || *base <= 0 || !seconds) return std::nullopt;
  const double work = *rate / *base * seconds->median;  // FLOPs of a step over the base's
  RateRatio ratio{{work / seconds->median, work / seconds->high, work / seconds->low},
                  std::nullopt};
  if (group.base->stands_for && row.stands_for->tflops_per_s_per_device &&
      group.base->stands_for->tflops_per_s_per_device)
    ratio.published =
        *row.stands_for->tflops_per_s_per_device / *group.base->stands_for->tflops_per_s_per_device;
  return ratio;
}

std::vector<Difference> differences_of(const Group& group) {
  const std::vector<const Row*> rows = comparable_rows(group);
  if (rows.size() < 2) return {};
  const Row* fastest = order_of(group).published.front();
  std::vector<Difference> differences;
  if (fastest != rows.front()) differences.push_back(difference(*fastest, *rows.front()));
  for (const Row* row : rows)
    if (row != fastest && (row != rows.front() || fastest == rows.front()))
      differences.push_back(difference(*row, *fastest));
  return differences;
}

Order order_of(const Group& group) {
  Order order{comparable_rows(group), comparable_rows(group)};
  std::stable_sort(order.published.begin(), order.published.end(), [](const Row* a, const Row* b) {
    return *published_rate(*a) > *published_rate(*b);
  });
  std::stable_sort(order.ours.begin(), order.ours.end(),
                   [](const Row* a, const Row* b) { return *rate_of(*a) > *rate_of(*b); });
  return order;
}

}  // namespace spillway
