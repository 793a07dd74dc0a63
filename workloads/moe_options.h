// The options of a mixture of experts that shape its Program. A dense model has none of them: its
// builder refuses a value that differs from these defaults (a default MoeOptions says nothing).
#pragma once

#include <cstdint>
#include <string>

#include "harness/program.h"

namespace spillway {

// Which experts the synthetic data takes. The weights still come from the router's scores at those
// experts.
struct RoutingChoice {
  using Kind = Routing::Choice;
  Kind kind = Kind::model;
  double exponent = 0;  // of zipf, > 0; else 0
  friend bool operator==(const RoutingChoice&, const RoutingChoice&) = default;
};

struct MoeOptions {
  // false: dropless (token permutation, grouped matmul); true: masks and dispatch/combine einsums.
  bool capacity_path = false;
  // Of the capacity path: slots of an expert in a batch row over its even share, > 0.
  double capacity_factor = 1;
  RoutingChoice routing;
  int64_t expert_parallel = 1;  // ranks E that the experts are spread over; divides the devices
  // Rows planned for a rank over top_k * tokens (MaxText's name); 0: the default of the executor
  // (1 in simulation, 2 when executed with E > 1). Without expert parallelism it has no meaning.
  double ragged_buffer_factor = 0;
  friend bool operator==(const MoeOptions&, const MoeOptions&) = default;
};

// "uniform", "zipf:1.2", "one"; the router's own choice has no word: "".
std::string text_of(const RoutingChoice& routing);

// For builders of dense models. Throws InputError naming the first option that differs from its
// default, and the model.
void refuse_moe_options(const MoeOptions& options, const std::string& model);

}  // namespace spillway
