// Multi-head latent attention's sizes (transformers' DeepseekV2Config, DeepseekV3Config).
#include "harness/error.h"
#include "workloads/config_parts.h"

namespace spillway {
namespace {

// Derived sizes that some files write down; a different value would mean another model.
void check_derived(const JsonKeys& keys, const ModelConfig& config) {
  const MlaConfig& mla = *config.mla;
  if (config.kv_heads != config.heads)
    keys.refuse("num_key_value_heads", text("num_attention_heads, ", config.heads,
                                            ": latent attention has one key a head"));
  const int64_t whole = config.head_dim, rotated = mla.qk_rope_head_dim;
  if (keys.optional_size("qk_head_dim").value_or(whole) != whole)
    keys.refuse("qk_head_dim", text("qk_nope_head_dim + qk_rope_head_dim, ", whole));
  const int64_t head_dim = keys.optional_size("head_dim").value_or(rotated);
  if (head_dim != rotated && head_dim != whole)
    keys.refuse("head_dim", text("qk_rope_head_dim, ", rotated));
}

}  // namespace

void read_mla(const JsonKeys& keys, ModelConfig& config) {
  MlaConfig mla;
  if (!keys.is_written("q_lora_rank"))
    keys.refuse("q_lora_rank", "an integer, or null where queries are projected directly");
  mla.q_lora_rank = keys.optional_size("q_lora_rank");
  mla.kv_lora_rank = keys.size("kv_lora_rank");
  mla.qk_nope_head_dim = keys.size("qk_nope_head_dim");
  mla.qk_rope_head_dim = keys.size("qk_rope_head_dim");
  if (mla.qk_rope_head_dim % 2 != 0)
    keys.refuse("qk_rope_head_dim", "an even number: rotation works on pairs");
  mla.v_head_dim = keys.size("v_head_dim");
  mla.rope_interleave = keys.flag("rope_interleave", true);
  config.mla = mla;
  config.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  check_derived(keys, config);
}

}  // namespace spillway
