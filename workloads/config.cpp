// Hugging Face config.json -> ModelConfig. Key names and the defaults of keys that are not sizes
// are those of transformers' configuration classes.
#include "workloads/config.h"

#include <algorithm>

#include "harness/error.h"
#include "workloads/config_parts.h"
#include "workloads/json.h"
#include "workloads/json_keys.h"

namespace spillway {
namespace {

constexpr double usual_theta = 10000, usual_eps = 1e-6;  // LlamaConfig's

constexpr Family families[] = {
    {.model_type = "llama",
     .architectures = {"LlamaForCausalLM", "LLaMAForCausalLM"},
     .rope_theta = usual_theta,
     .rms_norm_eps = usual_eps},
    {.model_type = "qwen2", .architectures = {"Qwen2ForCausalLM"}, .qkv_bias = true},
    {.model_type = "qwen3",
     .architectures = {"Qwen3ForCausalLM"},
     .qk_norm = true,
     .states_head_dim = true},
    {.model_type = "mixtral", .architectures = {"MixtralForCausalLM"}, .experts = Experts::mixtral},
    {.model_type = "qwen3_moe",
     .architectures = {"Qwen3MoeForCausalLM"},
     .experts = Experts::qwen,
     .qk_norm = true,
     .states_head_dim = true},
    {.model_type = "deepseek_v2",
     .architectures = {"DeepseekV2ForCausalLM"},
     .experts = Experts::deepseek_v2,
     .mla = true},
    {.model_type = "deepseek_v3",
     .architectures = {"DeepseekV3ForCausalLM"},
     .experts = Experts::deepseek_v3,
     .mla = true},
    {.model_type = "kimi_k2",
     .architectures = {"DeepseekV3ForCausalLM", "KimiK2ForCausalLM"},
     .experts = Experts::deepseek_v3,
     .mla = true},
};

std::string supported_types() {
  std::string list;
  for (const Family& family : families)
    list += (list.empty() ? "" : ", ") + std::string(family.model_type);
  return list;
}

// A head or a draft model of another class (LlamaForCausalLMEagle3) has the same model_type.
void check_architectures(const JsonKeys& keys, const Family& family) {
  const auto names = keys.optional_words("architectures");
  if (!names || names->empty()) return;
  std::string wanted;
  for (const char* known : family.architectures) {
    if (known == nullptr) continue;
    if (std::find(names->begin(), names->end(), known) != names->end()) return;
    wanted += (wanted.empty() ? "" : " or ") + std::string(known);
  }
  throw InputError(text(keys.path("architectures"), ": found \"", names->front(), "\", expected ",
                        wanted, ", the architecture of model_type ", family.model_type,
                        " that is supported"));
}

const Family& read_family(const JsonKeys& keys) {
  const std::string wanted = "one of the supported model types: " + supported_types();
  const auto type = keys.optional_word("model_type");
  if (!type) keys.refuse("model_type", wanted);
  for (const Family& family : families) {
    if (*type != family.model_type) continue;
    check_architectures(keys, family);
    return family;
  }
  keys.refuse("model_type", wanted);
}

void read_heads(const JsonKeys& keys, const Family& family, ModelConfig& config) {
  config.heads = keys.size("num_attention_heads");
  config.kv_heads = keys.optional_size("num_key_value_heads").value_or(config.heads);
  if (config.heads % config.kv_heads != 0)
    keys.refuse("num_key_value_heads", text("a divisor of num_attention_heads, ", config.heads));
  if (family.mla) return read_mla(keys, config);
  if (family.states_head_dim || keys.has("head_dim")) {
    config.head_dim = keys.size("head_dim");
    if (config.head_dim % 2 != 0)
      keys.refuse("head_dim", "an even number: rotation pairs two halves");
    return;
  }
  config.head_dim = config.hidden_size / config.heads;
  if (config.hidden_size % config.heads != 0 || config.head_dim % 2 != 0)
    keys.refuse("hidden_size", text("an even multiple of num_attention_heads, ", config.heads,
                                    ", as head_dim is not given"));
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

// Files with a text_config say it in either object.
bool read_tied(const JsonKeys& root, const JsonKeys& keys) {
  constexpr const char* key = "tie_word_embeddings";
  const bool outer = root.flag(key, false), inner = keys.flag(key, outer);
  if (root.has(key) && inner != outer)
    keys.refuse(key, text("the same as in the outer object, ", outer ? "true" : "false"));
  return inner;
}

}  // namespace

ModelConfig parse_config(const std::string& json_text, const std::string& file) {
  const ParsedJson parsed = parse_json(json_text, file);
  const JsonKeys root(parsed.root, file);
  // A multimodal file holds its language model under a key; only that is described.
  const JsonKeys keys = root.optional_object("text_config").value_or(root);
  const Family& family = read_family(keys);
  ModelConfig config;
  config.name = config.file = file;
  config.warnings = parsed.warnings;
  if (root.has("text_config"))
    config.warnings.push_back(text(file, ": text_config: the language model alone is meant"));
  config.model_type = family.model_type;
  config.hidden_size = keys.size("hidden_size");
  config.intermediate_size = keys.size("intermediate_size");
  config.layers = config.dense_layers = keys.size("num_hidden_layers");
  if (config.layers > most_layers)
    keys.refuse("num_hidden_layers", text("an integer of at most ", most_layers));
  config.vocab_size = keys.size("vocab_size");
  refuse_variants(keys, family, config.layers);
  read_heads(keys, family, config);
  config.qkv_bias = family.qkv_bias;
  config.qk_norm = family.qk_norm;
  read_moe(keys, family, config);
  config.mtp_layers = keys.optional_count("num_nextn_predict_layers").value_or(0);
  config.rms_norm_eps = family.rms_norm_eps ? keys.positive("rms_norm_eps", *family.rms_norm_eps)
                                            : keys.positive("rms_norm_eps");
  config.rope = read_rope(keys, family);
  config.tie_word_embeddings = read_tied(root, keys);
  config.initializer_range = keys.positive("initializer_range", 0.02);
  config.proxy_of = read_proxy(root);
  config.micro_batch = root.optional_size("micro_batch");
  config.seq = root.optional_size("seq");
  return config;
}

void set_layers(ModelConfig& config, int64_t layers) {
  if (layers == config.layers) return;
  if (config.interleaved_layers)
    throw InputError(text("layers: found ", layers, ", expected the ", config.layers, " of ",
                          config.file, ", whose dense and MoE layers are interleaved"));
  const bool ends_dense = config.moe_layers == 0;
  config.dense_layers = ends_dense ? layers : std::min(config.dense_layers, layers);
  config.moe_layers = layers - config.dense_layers;
  config.layers = layers;
}

}  // namespace spillway
