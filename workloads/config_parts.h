// What the readers of a config.json share: config.cpp (the model), config_refused.cpp (what no
// workload models), config_rope.cpp, config_mla.cpp and config_moe.cpp. Not for use outside.
#pragma once

#include <array>
#include <optional>

#include "workloads/config.h"
#include "workloads/json_keys.h"

namespace spillway {

// Which keys describe the experts of a family, and what they mean.
enum class Experts : uint8_t { none, mixtral, qwen, deepseek_v2, deepseek_v3 };

// What a model_type says beyond the keys of its files: transformers' classes of that name.
struct Family {
  const char* model_type;
  std::array<const char*, 2> architectures;  // null: fewer
  Experts experts = Experts::none;
  bool mla = false;
  bool qkv_bias = false;  // no key announces it
  bool qk_norm = false;
  bool states_head_dim = false;  // hidden_size / heads would be wrong where the key is missing
  // Where files of the family leave them out: transformers' defaults. Sizes have none.
  std::optional<double> rope_theta = {}, rms_norm_eps = {};
};

// Throws InputError for whatever changes the arithmetic and no workload models.
void refuse_variants(const JsonKeys& keys, const Family& family, int64_t layers);

Rope read_rope(const JsonKeys& keys, const Family& family);
void read_mla(const JsonKeys& keys, ModelConfig& config);
// Experts, and which layers have them; nothing for a family without. Reads config.layers and config.intermediate_size.
void read_moe(const JsonKeys& keys, const Family& family, ModelConfig& config);

}  // namespace spillway
