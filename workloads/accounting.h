// FLOPs, bytes and parameters of a model, by published formulas (published.md 4), independent of
// any Program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "workloads/config.h"

namespace spillway {

struct ActivationSize {
  std::string segment;  // "layers"
  int64_t layers = 0;
  std::string name;
  int64_t bytes = 0;  // of one layer, 2 bytes an element (lse: 4)
};

struct ModelAccount {
  int64_t params_total = 0, params_active = 0, dense_layers = 0, moe_layers = 0;
  std::optional<int64_t> head_dim;
  int64_t kv_heads = 0;
  int64_t q_bytes = 0, k_bytes = 0, v_bytes = 0, qkv_bytes_per_layer = 0, qkv_bytes_all_layers = 0;
  // One step on one device: 6 per matmul weight and token, plus attention forward and backward;
  // exact integers. causal: MaxText's halved attention; full: the full square.
  int64_t flops_step_causal = 0, flops_step_full = 0;
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
