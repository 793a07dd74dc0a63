// FLOPs, bytes and parameters of a model, by published formulas (published.md 4), independent of
// any Program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "workloads/config.h"

namespace spillway {

struct ActivationSize {
  std::string segment;  // "layers"; in a model with experts "dense_layers" or "moe_layers"
  int64_t layers = 0;
  std::string name;
  int64_t bytes = 0;  // of one layer, 2 bytes an element (lse: 4)
};

struct FlopPart {
  std::string name;  // of a group of weight matrices, or "attention"
  int64_t flops = 0;
};

struct ModelAccount {
  // Active: what one token meets, embedding and head counted in both.
  int64_t params_total = 0, params_active = 0, dense_layers = 0, moe_layers = 0;
  // Multi-token prediction layers are in neither count. Stored: with embedding and head again for
  // each of them, as a checkpoint holds them.
  std::optional<int64_t> mtp_unique, total_with_mtp_stored;
  std::optional<int64_t> head_dim;  // none with MLA, whose q, k and v heads differ
  int64_t kv_heads = 0;
  int64_t q_bytes = 0, k_bytes = 0, v_bytes = 0, qkv_bytes_per_layer = 0, qkv_bytes_all_layers = 0;
  // Output of one up projection (top_k rows a token and the shared experts); compressed query,
  // compressed key and value, and the shared rotary key.
  std::optional<int64_t> moe_up_bytes_per_layer, mla_latent_bytes_per_layer;
  // One step on one device: 6 per matmul weight and token, plus attention forward and backward;
  // exact integers. causal: MaxText's halved attention; full: the full square.
  int64_t flops_step_causal = 0, flops_step_full = 0;
  std::vector<FlopPart> flops;  // adds up to flops_step_causal; attention, the last, is halved
  std::vector<ActivationSize> activations;
};

// Throws InputError when a product does not fit 64 bits.
ModelAccount account(const ModelConfig& config, int64_t micro_batch, int64_t seq);

// Matmul and attention FLOPs the segments of a Program execute in a step on one device.
struct ExecutedFlops {
  double matmul = 0;                    // attention included, causal-halved
  double attention_backward_extra = 0;  // the tiled kernel's second QK^T
};
ExecutedFlops executed_flops(const Program& program);

}  // namespace spillway
