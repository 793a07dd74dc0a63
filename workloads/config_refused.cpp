// Keys that change a model's arithmetic in a way no workload here models. Ignoring one would
// describe and time another model without saying so.
#include "harness/error.h"
#include "workloads/config_parts.h"

namespace spillway {
namespace {

constexpr std::array flags_that_must_be_false = {
    "attention_bias",   "mlp_bias",       "qk_layernorm",
    "use_mrope",        "mla_use_nope",   "gated_mla",
    "attn_output_gate", "learnable_sink", "add_swa_attention_sink_bias"};

constexpr std::array flags_that_must_be_true = {"is_causal", "use_mla"};

constexpr std::array numbers_that_must_be_zero = {"attention_dropout", "router_jitter_noise"};

constexpr std::array keys_that_must_be_absent = {"attention_chunk_size",
                                                 "attn_logit_softcapping",
                                                 "final_logit_softcapping",
                                                 "attention_multiplier",
                                                 "embedding_multiplier",
                                                 "residual_multiplier",
                                                 "logits_scaling",
                                                 "linear_attn_config",
                                                 "full_attention_interval",
                                                 "num_kv_shared_layers",
                                                 "index_topk",
                                                 "draft_vocab_size",
                                                 "swiglu_limit",
                                                 "zero_expert_num",
                                                 "mlp_layer_types"};

// Of other families: a file that has them is not what its model_type says.
constexpr std::array expert_keys = {"n_routed_experts", "num_experts", "num_local_experts",
                                    "moe_intermediate_size"};
constexpr std::array latent_keys = {"kv_lora_rank", "q_lora_rank"};

void refuse_settings(const JsonKeys& keys) {
  if (keys.optional_word("hidden_act").value_or("silu") != "silu")
    keys.refuse("hidden_act", "\"silu\", the only activation of these workloads");
  for (const char* key : flags_that_must_be_false)
    if (keys.flag(key, false)) keys.refuse(key, "false: the other is not modelled");
  for (const char* key : flags_that_must_be_true)
    if (!keys.flag(key, true)) keys.refuse(key, "true: the other is not modelled");
  for (const char* key : numbers_that_must_be_zero)
    if (keys.non_negative(key, 0) != 0) keys.refuse(key, "0: random masks are not modelled");
  for (const char* key : keys_that_must_be_absent)
    if (keys.has(key)) keys.refuse(key, "nothing: it is not modelled");
  if (keys.positive("partial_rotary_factor", 1) != 1)
    keys.refuse("partial_rotary_factor", "1: rotating part of a head is not supported");
}

// Qwen's files state a window that use_sliding_window turns off; where it is on, the layers from
// max_window_layers have one (Qwen3-MoE: all layers). Elsewhere a window that is stated is in use.
void refuse_windows(const JsonKeys& keys, const Family& family, int64_t layers) {
  constexpr const char* wanted = "full attention: sliding windows are not modelled";
  if (const auto types = keys.optional_words("layer_types")) {
    for (const std::string& type : *types)
      if (type != "full_attention")
        throw InputError(text(keys.path("layer_types"), ": found \"", type,
                              "\", expected \"full_attention\" for every layer: windows and other ",
                              "kinds of layers are not modelled"));
    if (static_cast<int64_t>(types->size()) != layers)
      keys.refuse("layer_types", text("one entry for each of ", layers, " layers"));
  }
  if (!keys.has("sliding_window")) return;
  const bool is_qwen = family.qkv_bias || family.qk_norm;
  if (!keys.flag("use_sliding_window", !is_qwen)) return;
  const bool starts_late = is_qwen && family.experts == Experts::none;
  if (starts_late && keys.optional_count("max_window_layers").value_or(0) >= layers) return;
  keys.refuse("sliding_window", wanted);
}

void refuse_other_families(const JsonKeys& keys, const Family& family) {
  const auto refuse_part = [&](const char* key) {
    keys.refuse(key, text("nothing: model_type ", family.model_type, " has no such part"));
  };
  if (family.experts == Experts::none)
    for (const char* key : expert_keys)
      if (keys.has(key)) refuse_part(key);
  if (!family.mla)
    for (const char* key : latent_keys)
      if (keys.has(key)) refuse_part(key);
  if (family.experts != Experts::deepseek_v3 &&
      keys.optional_count("num_nextn_predict_layers").value_or(0) != 0)
    refuse_part("num_nextn_predict_layers");
  // The load-balancing loss that transformers adds to the model's where this is set.
  if (keys.flag("output_router_logits", false))
    keys.refuse("output_router_logits", "false: an auxiliary loss is not modelled");
}

}  // namespace

void refuse_variants(const JsonKeys& keys, const Family& family, int64_t layers) {
  refuse_settings(keys);
  refuse_windows(keys, family, layers);
  refuse_other_families(keys, family);
}

}  // namespace spillway
