// Hugging Face config.json -> ModelConfig. Key names and the defaults of keys that are not sizes
// are those of transformers' LlamaConfig.
#include "workloads/config.h"

#include <array>

#include "harness/error.h"
#include "workloads/json.h"
#include "workloads/json_keys.h"

namespace spillway {
namespace {

constexpr std::array supported_types = {"llama"};

std::string joined(const auto& words) {
  std::string list;
  for (const auto& word : words)
    list += (list.empty() ? "" : ", ") + std::string(word);
  return list;
}

std::string read_model_type(const JsonKeys& keys) {
  const std::string wanted = "one of the supported model types: " + joined(supported_types);
  const auto type = keys.optional_word("model_type");
  if (!type) keys.refuse("model_type", wanted);
  for (const char* supported : supported_types)
    if (*type == supported) return *type;
  keys.refuse("model_type", wanted);
}

// Parts of the family that other workloads bring; ignoring them would change the model unnoticed.
void refuse_variants(const JsonKeys& keys) {
  if (keys.optional_word("hidden_act").value_or("silu") != "silu")
    keys.refuse("hidden_act", "\"silu\", the only activation of this workload");
  for (const char* bias : {"attention_bias", "mlp_bias"})
    if (keys.flag(bias, false))
      keys.refuse(bias, "false: projections with a bias are not supported");
  if (keys.positive("partial_rotary_factor", 1) != 1)
    keys.refuse("partial_rotary_factor", "1: rotating part of a head is not supported");
}

void read_heads(const JsonKeys& keys, ModelConfig& config) {
  config.heads = keys.size("num_attention_heads");
  config.kv_heads = keys.optional_size("num_key_value_heads").value_or(config.heads);
  if (config.heads % config.kv_heads != 0)
    keys.refuse("num_key_value_heads", text("a divisor of num_attention_heads, ", config.heads));
  if (const auto head_dim = keys.optional_size("head_dim")) {
    if (*head_dim % 2 != 0) keys.refuse("head_dim", "an even number: rotation pairs two halves");
    config.head_dim = *head_dim;
    return;
  }
  config.head_dim = config.hidden_size / config.heads;
  if (config.hidden_size % config.heads != 0 || config.head_dim % 2 != 0)
    keys.refuse("hidden_size", text("an even multiple of num_attention_heads, ", config.heads,
                                    ", as head_dim is not given"));
}

// rope_type "default" or "llama3" (transformers' modeling_rope_utils.py); older files say "type".
void read_rope_scaling(const JsonKeys& scaling, Rope& rope) {
  const char* key = scaling.has("rope_type") ? "rope_type" : "type";
  const std::string type = scaling.optional_word(key).value_or("default");
  if (type == "default") return;
  if (type != "llama3") scaling.refuse(key, "\"llama3\" or \"default\", the supported scalings");
  rope.factor = scaling.positive("factor");
  if (rope.factor < 1) scaling.refuse("factor", "a number of at least 1");
  rope.low_freq_factor = scaling.positive("low_freq_factor");
  rope.high_freq_factor = scaling.positive("high_freq_factor");
  if (rope.high_freq_factor <= rope.low_freq_factor)
    scaling.refuse("high_freq_factor",
                   text("a number above low_freq_factor, ", rope.low_freq_factor));
  rope.original_max_position = scaling.size("original_max_position_embeddings");
}

// Newer files (transformers 5) hold scaling and theta in one object, rope_parameters.
Rope read_rope(const JsonKeys& keys) {
  Rope rope;
  rope.theta = keys.positive("rope_theta", 10000);
  const auto scaling = keys.optional_object("rope_scaling");
  const auto parameters = keys.optional_object("rope_parameters");
  if (scaling && parameters) keys.refuse("rope_parameters", "nothing beside rope_scaling");
  if (scaling) read_rope_scaling(*scaling, rope);
  if (parameters) {
    read_rope_scaling(*parameters, rope);
    rope.theta = parameters->positive("rope_theta", rope.theta);
  }
  return rope;
}

// Whether a policy or model of that name exists is for those who use it to say.
std::optional<ProxyOf> read_proxy(const JsonKeys& keys) {
  const auto object = keys.optional_object("proxy_of");
  if (!object) return std::nullopt;
  ProxyOf proxy;
  proxy.model = object->word("model");
  proxy.micro_batch = object->size("micro_batch");
  proxy.seq = object->size("seq");
  proxy.devices = object->size("devices");
  proxy.policy = object->word("policy");
  proxy.precision = object->word("precision");
  for (const char* precision : {"fp32", "bf16", "fp8", "nvfp4"})
    if (proxy.precision == precision) return proxy;
  object->refuse("precision", "one of fp32, bf16, fp8, nvfp4");
}

}  // namespace

ModelConfig parse_config(const std::string& json_text, const std::string& file) {
  const ParsedJson parsed = parse_json(json_text, file);
  const JsonKeys keys(parsed.root, file);
  ModelConfig config;
  config.name = config.file = file;
  config.warnings = parsed.warnings;
  config.model_type = read_model_type(keys);
  refuse_variants(keys);
  config.hidden_size = keys.size("hidden_size");
  config.intermediate_size = keys.size("intermediate_size");
  config.layers = keys.size("num_hidden_layers");
  config.vocab_size = keys.size("vocab_size");
  read_heads(keys, config);
  config.rms_norm_eps = keys.positive("rms_norm_eps", 1e-6);
  config.rope = read_rope(keys);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  config.initializer_range = keys.positive("initializer_range", 0.02);
  config.proxy_of = read_proxy(keys);
  config.micro_batch = keys.optional_size("micro_batch");
  config.seq = keys.optional_size("seq");
  return config;
}

}  // namespace spillway
