// What the parts of the Llama builder share: llama.cpp (weights, ends of the step) and
// llama_layers.cpp (the scanned stack). Not for use outside.
#pragma once

#include "harness/program.h"
#include "workloads/body.h"
#include "workloads/config.h"

namespace spillway {

// Number formats of the groups of matmuls.
struct LlamaPrecisions {
  Precision mlp, projection, attention, head;
};

// D hidden, H heads, K kv heads, h head_dim, F intermediate, V vocabulary, L layers.
struct LlamaWeights {
  Weight embedding;              // [V, D]
  Weight input_norm, post_norm;  // [D] x L
  Weight query, key, value;      // [H h, D], [K h, D], [K h, D] x L
  Weight output;                 // [D, H h] x L
  Weight gate, up, down;         // [F, D], [F, D], [D, F] x L
  Weight final_norm;             // [D]
  Weight head;                   // [V, D]; the embedding itself when tied
};

struct LlamaBuild {
  const ModelConfig& config;
  LlamaPrecisions precision;
  DType dtype;  // of activations and of the weights that ops read
  Program program;
  LlamaWeights weights;
  TensorId tokens, targets;  // [T] i32
  TensorId hidden;           // [T, D], ring of 2: layer i reads slot i, writes slot i + 1
  TensorId d_hidden;         // [T, D]: gradient of the loss by hidden, updated in place
};

// Appends layers.forward and layers.backward. The head must come between them, so they are two
// calls; `saved` are the forward's values that the backward reads.
struct LayerValues {
  TensorId attention_input, query, key, value, context, log_sum_exp;
  TensorId middle;  // hidden + attention: input of the second norm
  TensorId mlp_input, gate, up, product;
};
LayerValues add_forward_layers(LlamaBuild& build);
void add_backward_layers(LlamaBuild& build, const LayerValues& saved, int forward_segment);

}  // namespace spillway
