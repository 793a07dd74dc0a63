// One full training step of a decoder model as a Program (Stage::built, one device).
#pragma once

#include "harness/program.h"
#include "workloads/config.h"
#include "workloads/moe_options.h"

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
  // fp32: everything fp32; fp8, nvfp4: MLP and expert matmuls, rest below
  Precision precision = Precision::bf16;
  Precision projection_precision = Precision::bf16;  // attention projections under fp8 and nvfp4
  // Logits are converted to fp32 for the loss, as MaxText does by default (cast_logits_to_fp32 of its
  // base.yml); else the loss reads them in the dtype of the program.
  bool fp32_logits = false;
  StateBytes state_bytes;
  AdamW adamw;
  MoeOptions moe;
};

// Segments: embed, then for each stack S of equal layers S.forward (one trip a layer), head (final
// norm, LM head, loss and their backward), for each stack, last first, S.backward, then
// embed.backward, optimizer. A model whose layers are all alike has one stack, `layers`; one with
// dense and MoE layers has `dense_layers` and `moe_layers`. T = micro_batch * seq rows; activations
// are [T, width]. Weight matrices are [out, in] as in Hugging Face checkpoints, stacked over the
// layers of a stack; those of experts [experts, out, in]. On one device the compute copy (bf16) is
// a persistent tensor beside the fp32 weight and AdamW writes both; with precision fp32 (or 2-byte
// weights) there is one weight. Throws InputError for options that make no sense.
Program build_program(const ModelConfig& config, const WorkloadOptions& options);

}  // namespace spillway
