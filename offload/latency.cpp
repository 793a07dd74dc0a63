// Latency models.
#include "offload/latency.h"

#include <array>
#include <utility>

#include "harness/error.h"

namespace spillway {

namespace {

constexpr double sol_unit = 1e-6;  // seconds; XLA's SoL estimator counts microseconds
constexpr double host_copy_units = 5000;
constexpr double custom_call_units = 0.01 * 1000, other_units = 0.01 * 1;

constexpr std::array latency_models = {LatencyModel::size, LatencyModel::xla,
                                       LatencyModel::measured};

}  // namespace

const char* name_of(LatencyModel model) {
  switch (model) {
    case LatencyModel::size:
      return "size";
    case LatencyModel::xla:
      return "xla";
    case LatencyModel::measured:
      return "measured";
  }
  return "?";
}

LatencyModel parse_latency_model(const std::string& word) {
  for (const LatencyModel model : latency_models)
    if (word == name_of(model)) return model;
  throw InputError(text("--latency-model: found '", word, "', expected xla, size or measured"));
}

OpSeconds xla_seconds(OpSeconds model) {
  return [model = std::move(model)](const Program& program, const Op& op) {
    switch (op.kind) {
      case OpKind::copy_d2h:
      case OpKind::copy_h2d:
        return host_copy_units * sol_unit;
      case OpKind::attention:
      case OpKind::attention_backward:
        return custom_call_units * sol_unit;
      case OpKind::copy_d2d:
        return other_units * sol_unit;
      default:
        return model(program, op);
    }
  };
}

std::string profile_name(const Program& program, const Op& op) {
  for (const Segment& segment : program.segments)
    for (const Op& own : segment.ops)
      if (&own == &op) return segment.name + "." + op.name;
  return "";
}

OpSeconds measured_seconds(std::map<std::string, double> profile, OpSeconds model) {
  return [profile = std::move(profile), model = std::move(model)](const Program& program,
                                                                  const Op& op) {
    const auto found = profile.find(profile_name(program, op));
    return found == profile.end() ? model(program, op) : found->second;
  };
}

}  // namespace spillway
