// What routing does to a point with experts: rows an expert and a rank receive, choices dropped,
// and what that leaves of the planned peak. Nothing here decides how a token is routed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/executor.h"
#include "harness/plan.h"
#include "harness/program.h"

namespace spillway {

// Known before anything runs. All ranks have equal data, so each sends as many rows to an expert
// and every layer routes alike.
struct Routed {
  Routing routing;
  bool capacity_path = false;
  int64_t tokens = 0;  // of a device
  int64_t layers = 0;  // with experts
  int64_t ranks = 1;
  // Rows each expert receives in a layer, from all ranks. Empty: the router's own choice.
  std::optional<std::vector<int64_t>> expert_rows;
  std::optional<int64_t> dropped;  // choices of a device in a layer; capacity path
  // Rows of a rank on the dropless path, else 0. `uniform` and the router's own choice are taken as
  // even.
  int64_t planned_rows = 0, fullest_rows = 0;

  int64_t choices() const { return tokens * routing.top_k; }  // of a layer
};

// Empty for a model without experts. `ranks`: those that experts are spread over.
std::optional<Routed> routed_by(const Program& program, int64_t ranks);

// Where the fullest rank receives more rows than are planned: why, with both numbers; else empty.
std::string more_rows_than_planned(const std::optional<Routed>& routed);

// The planned peak less the rows of ragged tensors that the fullest rank leaves unused.
int64_t used_peak_bytes(const Plan& plan, const std::optional<Routed>& routed);

// What the last step left of each layer with experts: offsets of experts in the rows sorted by
// expert (dropless path), or the number of choices dropped (capacity path).
using RoutingRecord = std::vector<std::vector<int32_t>>;
RoutingRecord routing_record(const Program& program, const ValueExecutor& executor);

// The field `routing` of a result (README, "Fields of a result"); null without experts. What was
// executed goes before what is known of the choice; an empty record: nothing ran.
nlohmann::json routing_json(const std::optional<Routed>& routed, const RoutingRecord& record);

}  // namespace spillway
