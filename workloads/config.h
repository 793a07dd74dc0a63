// A Hugging Face config.json as numbers. No size key has a default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/program.h"

namespace spillway {

// The work of building and scheduling a step grows with its layers: more would look like a hang.
inline constexpr int64_t most_layers = 100'000;

// What a proxy stands for (key `proxy_of` of a shipped config).
struct ProxyOf {
  std::string model;
  int64_t micro_batch = 0, seq = 0, devices = 0;
  std::string precision, policy;
};

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, 2.1): keys and values of all heads
// come from one latent row a token, queries from another. A head of q and k is qk_nope_head_dim
// columns without rotation, then qk_rope_head_dim rotated ones; the rotated part of k is shared.
struct MlaConfig {
  std::optional<int64_t> q_lora_rank;  // none: queries are projected from the hidden state directly
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  bool rope_interleave = true;  // rotation pairs columns (2i, 2i + 1), not (i, i + r / 2)
  // transformers gives the two latent norms their class's default, whatever rms_norm_eps says.
  double latent_norm_eps = 1e-6;
};

// A mixture-of-experts feed-forward: router [experts, D], experts and the shared expert are gated
// MLPs of widths expert_ffn and shared_ffn.
struct MoeConfig {
  using Score = Routing::Score;            // of the router's logits
  using GroupScore = Routing::GroupScore;  // ranks groups by their experts' scores
  int64_t experts = 0, top_k = 0;
  int64_t groups = 1, top_groups = 1;  // experts are chosen among the best top_groups groups
  int64_t expert_ffn = 0;
  int64_t shared_experts = 0, shared_ffn = 0;  // all shared ones together: shared_experts * width
  Score score = Score::softmax;
  GroupScore group_score = GroupScore::max;
  bool normalise = true;  // weights of the chosen experts sum to 1 before `scale`
  double scale = 1;
  bool correction_bias = false;  // [experts], added to the scores for the choice only
};

struct ModelConfig {
  std::string name;  // of a shipped model, else the file
  std::string file;
  std::string model_type;
  int64_t hidden_size = 0, intermediate_size = 0, layers = 0, vocab_size = 0;
  int64_t heads = 0, kv_heads = 0;
  int64_t head_dim = 0;   // of q and k; with MLA qk_nope_head_dim + qk_rope_head_dim
  bool qkv_bias = false;  // q, k and v projections add a bias (Qwen2), o none
  bool qk_norm = false;   // RMSNorm [head_dim] of every head of q and k before rotation (Qwen3)
  std::optional<MlaConfig> mla;              // none: ordinary attention
  std::optional<MoeConfig> moe;              // none: every layer is dense
  int64_t dense_layers = 0, moe_layers = 0;  // together `layers`: dense first, then MoE, unless ...
  bool interleaved_layers = false;           // ... they alternate in another order
  int64_t mtp_layers = 0;                    // multi-token prediction layers, none of `layers`
  double rms_norm_eps = 0;
  Rope rope;
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;
  // Defaults of a point for a proxy (keys `micro_batch`, `seq` beside `proxy_of`).
  std::optional<ProxyOf> proxy_of;
  std::optional<int64_t> micro_batch, seq;
  std::vector<std::string> warnings;  // a duplicate key (the last counts), for instance
};

// Throws InputError: file, line and column for malformed JSON; file and key, found and expected for
// a bad value; the list of supported architectures for one we do not know.
ModelConfig parse_config(const std::string& json_text, const std::string& file);

// Keeps the first `layers` of the stack, or lengthens it by more of its last kind (--layers).
// Throws InputError for interleaved layers, whose order a ModelConfig does not hold.
void set_layers(ModelConfig& config, int64_t layers);

// A shipped model by name, else a file by path. Throws InputError listing the shipped names.
ModelConfig load_model(const std::string& name_or_path);
std::vector<std::string> model_names();

}  // namespace spillway
