// Figures of routing, from a program's own ops and from what a run recorded.
#include "sweeps/routing.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "harness/error.h"
#include "harness/routing.h"
#include "workloads/moe_options.h"

namespace spillway {

namespace {

using nlohmann::json;

// The first op of a kind; those of one kind route alike in all layers. Null: there is none.
const Op* first_op(const Program& program, OpKind kind) {
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops)
      if (op.kind == kind) return &op;
  return nullptr;
}

// Persistent records, one slice a layer: the workload names them behind their stack.
std::vector<TensorId> records_of(const Program& program) {
  std::vector<TensorId> found;
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    const Tensor& tensor = program.tensors[id];
    const bool named =
        tensor.name.ends_with(".expert_offsets") || tensor.name.ends_with(".dropped");
    if (named && tensor.extent == Extent::persistent) found.push_back(static_cast<TensorId>(id));
  }
  return found;
}

// Capacity is of an expert in one sequence (ops/capacity_mask.cpp): what is over it is dropped.
void drop_over_capacity(Routed& routed, const Program& program, int64_t capacity) {
  routed.expert_rows = std::vector<int64_t>(static_cast<size_t>(routed.routing.experts), 0);
  routed.dropped = 0;
  for (int64_t b = 0; b < program.batch; ++b) {
    const auto rows = rows_of_experts(routed.routing, b * program.seq, program.seq);
    for (size_t e = 0; e < rows->size(); ++e) {
      const int64_t kept = std::min((*rows)[e], capacity);
      (*routed.expert_rows)[e] += kept;
      *routed.dropped += (*rows)[e] - kept;
    }
  }
}

// Ranks hold equal runs of experts, in order.
int64_t fullest_rank(const std::vector<int64_t>& expert_rows, int64_t ranks) {
  const auto experts = static_cast<std::ptrdiff_t>(expert_rows.size()) / ranks;
  int64_t most = 0;
  for (auto first = expert_rows.begin(); first != expert_rows.end(); first += experts)
    most = std::max(most, std::accumulate(first, first + experts, int64_t{0}));
  return most;
}

// Ragged tensors have as many rows as are planned; without them a rank has its own rows only.
void count_rank_rows(Routed& routed, const Program& program) {
  routed.planned_rows = routed.fullest_rows = routed.choices();
  if (routed.ranks == 1) return;
  const auto ragged = std::find_if(program.tensors.begin(), program.tensors.end(),
                                   [](const Tensor& tensor) { return tensor.ragged; });
  check(ragged != program.tensors.end(), program.name, " spreads experts over ", routed.ranks,
        " ranks, but no tensor is ragged");
  routed.planned_rows = ragged->shape[0];
  // The remainder of an even split that does not come out is no skew.
  const bool even = routed.routing.choice == Routing::Choice::uniform;
  if (routed.expert_rows && !even)
    routed.fullest_rows = fullest_rank(*routed.expert_rows, routed.ranks);
}

struct Spread {
  double mean = 0;
  int64_t max = 0;
};

json spread_json(const std::optional<Spread>& spread) {
  return spread ? json{{"mean", spread->mean}, {"max", spread->max}} : json(nullptr);
}

Spread spread_of(const std::vector<int64_t>& rows) {
  const auto sum = static_cast<double>(std::accumulate(rows.begin(), rows.end(), int64_t{0}));
  return {sum / static_cast<double>(rows.size()), *std::max_element(rows.begin(), rows.end())};
}

// Over all experts of all layers.
Spread spread_of(const RoutingRecord& offsets) {
  std::vector<int64_t> rows;
  for (const std::vector<int32_t>& layer : offsets)
    for (size_t e = 1; e < layer.size(); ++e)
      rows.push_back(layer[e] - layer[e - 1]);
  return spread_of(rows);
}

std::optional<Spread> expert_spread(const Routed& routed, const RoutingRecord& record) {
  if (!routed.capacity_path && !record.empty()) return spread_of(record);
  if (routed.expert_rows) return spread_of(*routed.expert_rows);
  return std::nullopt;
}

// Over all layers, of one device.
std::optional<int64_t> dropped_choices(const Routed& routed, const RoutingRecord& record) {
  if (!routed.capacity_path) return std::nullopt;
  if (record.empty() && routed.dropped) return *routed.dropped * routed.layers;
  if (record.empty()) return std::nullopt;
  return std::accumulate(
      record.begin(), record.end(), int64_t{0},
      [](int64_t sum, const std::vector<int32_t>& layer) { return sum + layer.front(); });
}

// Ranks together receive what they send: the mean is what one of them sends.
json rank_rows(const Routed& routed) {
  if (routed.capacity_path) return nullptr;
  return {
      {"planned", routed.planned_rows}, {"mean", routed.choices()}, {"max", routed.fullest_rows}};
}

std::string choice_of(const Routing& routing) {
  const std::string given = text_of(RoutingChoice{routing.choice, routing.zipf});
  return given.empty() ? "model" : given;
}

}  // namespace

std::optional<Routed> routed_by(const Program& program, int64_t ranks) {
  const Op* const router = first_op(program, OpKind::router);
  if (!router) return std::nullopt;
  Routed routed{.routing = router->attributes.routing,
                .tokens = program.batch * program.seq,
                .ranks = ranks,
                .expert_rows = {},
                .dropped = {}};
  for (const TensorId id : records_of(program))
    routed.layers += program.at(id).slices;
  const Op* const mask = first_op(program, OpKind::capacity_mask);
  routed.capacity_path = mask != nullptr;
  const bool known = routed.routing.choice != Routing::Choice::model;
  if (known && mask) drop_over_capacity(routed, program, mask->attributes.capacity);
  if (known && !mask) routed.expert_rows = rows_of_experts(routed.routing, 0, routed.tokens);
  if (routed.expert_rows)
    for (int64_t& rows : *routed.expert_rows)
      rows *= ranks;
  if (!mask) count_rank_rows(routed, program);
  return routed;
}

std::string more_rows_than_planned(const std::optional<Routed>& routed) {
  if (!routed || routed->fullest_rows <= routed->planned_rows) return "";
  return text("routing ", choice_of(routed->routing), ": the fullest of ", routed->ranks,
              " ranks receives ", routed->fullest_rows, " rows a layer, planned are ",
              routed->planned_rows, " (--ragged-buffer-factor)");
}

int64_t used_peak_bytes(const Plan& plan, const std::optional<Routed>& routed) {
  if (!routed || routed->fullest_rows >= routed->planned_rows) return plan.device_bytes;
  // Every ragged tensor is whole rows of the same number.
  const int64_t row_bytes = plan.peak_ragged_bytes / routed->planned_rows;
  return plan.device_bytes - row_bytes * (routed->planned_rows - routed->fullest_rows);
}

RoutingRecord routing_record(const Program& program, const ValueExecutor& executor) {
  RoutingRecord record;
  for (const TensorId id : records_of(program)) {
    const std::vector<std::byte> bytes = executor.read(id);
    const auto width = static_cast<size_t>(program.at(id).slice_bytes());
    for (size_t at = 0; at < bytes.size(); at += width) {
      record.emplace_back(width / sizeof(int32_t));
      std::memcpy(record.back().data(), bytes.data() + at, width);
    }
  }
  return record;
}

json routing_json(const std::optional<Routed>& routed, const RoutingRecord& record) {
  if (!routed) return nullptr;
  const std::optional<int64_t> dropped = dropped_choices(*routed, record);
  json share = nullptr;
  if (dropped)
    share = static_cast<double>(*dropped) / static_cast<double>(routed->choices() * routed->layers);
  return {{"path", routed->capacity_path ? "capacity" : "dropless"},
          {"choice", choice_of(routed->routing)},
          {"tokens", routed->tokens},
          {"top_k", routed->routing.top_k},
          {"experts", routed->routing.experts},
          {"expert_rows", spread_json(expert_spread(*routed, record))},
          {"rank_rows", rank_rows(*routed)},
          {"dropped_choices", dropped ? json(*dropped) : json(nullptr)},
          {"dropped_share", share}};
}

}  // namespace spillway
