// One full training step of a dense Llama as a Program (Stage::built, one device).
#pragma once

#include "harness/program.h"
#include "workloads/config.h"

namespace spillway {

// Bytes of weight, m, v and gradient per parameter (2 or 4 each); published runs differ.
struct StateBytes {
  int64_t weight = 4, m = 4, v = 4, gradient = 4;
  friend bool operator==(const StateBytes&, const StateBytes&) = default;
};

// Defaults as in MaxText's base.yml (learning_rate, adam_b1, adam_b2, adam_eps, adam_weight_decay).
struct AdamW {
  double learning_rate = 3e-5, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
};

struct WorkloadOptions {
  int64_t micro_batch = 1, seq = 4096;
  Precision precision =
      Precision::bf16;  // fp32: everything fp32; fp8, nvfp4: MLP matmuls, rest below
  Precision projection_precision = Precision::bf16;  // attention projections under fp8 and nvfp4
  StateBytes state_bytes;
  AdamW adamw;
};

// Segments: embed, layers.forward (L trips), head (final norm, LM head, loss and their backward),
// layers.backward (L trips), embed.backward, optimizer. T = micro_batch * seq rows; activations are
// [T, width]. Weight matrices are [out, in] as in Hugging Face checkpoints, stacked over layers.
// On one device the compute copy (bf16) is a persistent tensor beside the fp32 weight and AdamW
// writes both; with precision fp32 (or 2-byte weights) there is one weight.
Program build_llama(const ModelConfig& config, const WorkloadOptions& options);

}  // namespace spillway
