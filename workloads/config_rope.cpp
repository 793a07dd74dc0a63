// Rotary embedding as files spell it: rope_theta beside rope_scaling, or (transformers 5) both in
// rope_parameters; the kind under rope_type or, in older files, type.
#include <algorithm>

#include "harness/error.h"
#include "workloads/config_parts.h"

namespace spillway {
namespace {

// What a kind reads is read; a key beyond these (mrope_section, short_factor, a kind of layer) would
// change the rotation.
constexpr std::array known_keys = {"rope_type",        "type",
                                   "rope_theta",       "factor",
                                   "low_freq_factor",  "beta_fast",
                                   "beta_slow",        "original_max_position_embeddings",
                                   "high_freq_factor", "mscale",
                                   "mscale_all_dim",   "attention_factor",
                                   "truncate",         "partial_rotary_factor"};

void refuse_unknown_keys(const JsonKeys& scaling) {
  for (const std::string& name : scaling.names()) {
    const auto is_name = [&](const char* known) { return name == known; };
    if (scaling.has(name.c_str()) && std::none_of(known_keys.begin(), known_keys.end(), is_name))
      scaling.refuse(name.c_str(), "nothing: it is not modelled");
  }
  if (scaling.positive("partial_rotary_factor", 1) != 1)
    scaling.refuse("partial_rotary_factor", "1: rotating part of a head is not supported");
}

RopeKind read_kind(const JsonKeys& scaling) {
  const auto newer = scaling.optional_word("rope_type"), older = scaling.optional_word("type");
  if (newer && older && *newer != *older)
    scaling.refuse("type", text("the same as rope_type, \"", *newer, "\""));
  if (!newer && !older && scaling.has("factor"))
    scaling.refuse("rope_type", "the kind of scaling its factor belongs to");
  const std::string kind = newer ? *newer : older.value_or("default");
  if (kind == "default") return RopeKind::none;
  if (kind == "linear") return RopeKind::linear;
  if (kind == "llama3") return RopeKind::llama3;
  if (kind == "yarn") return RopeKind::yarn;
  scaling.refuse(newer ? "rope_type" : "type",
                 "one of default, linear, llama3, yarn, the supported scalings");
}

void read_llama3(const JsonKeys& scaling, Rope& rope) {
  rope.low_freq_factor = scaling.positive("low_freq_factor");
  rope.high_freq_factor = scaling.positive("high_freq_factor");
  if (rope.high_freq_factor <= rope.low_freq_factor)
    scaling.refuse("high_freq_factor",
                   text("a number above low_freq_factor, ", rope.low_freq_factor));
  rope.original_max_position = scaling.size("original_max_position_embeddings");
}

// transformers' _compute_yarn_parameters; its defaults for the keys that are not sizes.
void read_yarn(const JsonKeys& keys, const JsonKeys& scaling, Rope& rope) {
  constexpr const char* original = "original_max_position_embeddings";
  rope.original_max_position =
      scaling.has(original) ? scaling.size(original) : keys.size("max_position_embeddings");
  rope.beta_fast = scaling.positive("beta_fast", rope.beta_fast);
  rope.beta_slow = scaling.positive("beta_slow", rope.beta_slow);
  if (rope.beta_fast < rope.beta_slow)
    scaling.refuse("beta_fast", text("a number of at least beta_slow, ", rope.beta_slow));
  rope.mscale = scaling.non_negative("mscale", 0);
  rope.mscale_all_dim = scaling.non_negative("mscale_all_dim", 0);
  rope.attention_factor = scaling.positive("attention_factor", 0);
  rope.truncate = scaling.flag("truncate", true);
}

void read_scaling(const JsonKeys& keys, const JsonKeys& scaling, Rope& rope) {
  refuse_unknown_keys(scaling);
  rope.kind = read_kind(scaling);
  if (rope.kind == RopeKind::none) return;
  rope.factor = scaling.positive("factor");
  if (rope.factor < 1) scaling.refuse("factor", "a number of at least 1");
  if (rope.kind == RopeKind::llama3) read_llama3(scaling, rope);
  if (rope.kind == RopeKind::yarn) read_yarn(keys, scaling, rope);
}

// In either place; in both when a file serves old and new readers.
double read_theta(const JsonKeys& keys, const std::optional<JsonKeys>& parameters,
                  std::optional<double> when_absent) {
  if (!parameters || !parameters->has("rope_theta"))
    return when_absent ? keys.positive("rope_theta", *when_absent) : keys.positive("rope_theta");
  const double theta = parameters->positive("rope_theta");
  if (keys.positive("rope_theta", theta) != theta)
    keys.refuse("rope_theta", text("the same as rope_parameters.rope_theta, ", theta));
  return theta;
}

}  // namespace

Rope read_rope(const JsonKeys& keys, const Family& family) {
  Rope rope;
  const auto scaling = keys.optional_object("rope_scaling");
  const auto parameters = keys.optional_object("rope_parameters");
  if (scaling && parameters) keys.refuse("rope_parameters", "nothing beside rope_scaling");
  rope.theta = read_theta(keys, parameters, family.rope_theta);
  if (scaling) read_scaling(keys, *scaling, rope);
  if (parameters) read_scaling(keys, *parameters, rope);
  return rope;
}

}  // namespace spillway
