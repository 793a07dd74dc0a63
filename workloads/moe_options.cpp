// The options of a mixture of experts as text, and where they have no meaning.
#include "workloads/moe_options.h"

#include <charconv>

#include "harness/error.h"

namespace spillway {

namespace {

// Reads back as the same number.
std::string shortest(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, result.ptr};
}

}  // namespace

std::string text_of(const RoutingChoice& routing) {
  switch (routing.kind) {
    case RoutingChoice::Kind::model:
      return "";
    case RoutingChoice::Kind::uniform:
      return "uniform";
    case RoutingChoice::Kind::zipf:
      return "zipf:" + shortest(routing.exponent);
    case RoutingChoice::Kind::one:
      return "one";
  }
  return "?";
}

void refuse_moe_options(const MoeOptions& options, const std::string& model) {
  const auto refuse = [&](const char* option, const auto& found) {
    throw InputError(text(option, ": found ", found, ", but ", model,
                          " is dense; expected no option of experts"));
  };
  const MoeOptions none;
  if (options.capacity_path) refuse("--moe", "capacity");
  if (options.capacity_factor != none.capacity_factor)
    refuse("--capacity-factor", options.capacity_factor);
  if (options.routing != none.routing) refuse("--routing", text_of(options.routing));
  if (options.expert_parallel != none.expert_parallel)
    refuse("--expert-parallel", options.expert_parallel);
  if (options.ragged_buffer_factor != none.ragged_buffer_factor)
    refuse("--ragged-buffer-factor", options.ragged_buffer_factor);
}

}  // namespace spillway
