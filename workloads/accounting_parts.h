// What the files of the accounting share: accounting.cpp (bytes, FLOPs), accounting_weights.cpp
// (parameters) and accounting_activations.cpp (the named values). Not for use outside.
#pragma once

#include "workloads/accounting.h"

namespace spillway {

inline constexpr int64_t bf16_bytes = 2;  // of an element of every named activation but one

// Sizes of one point. D hidden, V vocabulary, L layers; T = batch * seq rows. Widths are those of
// all heads together.
struct Sizes {
  int64_t batch, seq, rows;
  int64_t D, V, L;
  int64_t q_width, k_width, v_width;
  int64_t context_width;  // heads * head size of v
};
Sizes sizes_of(const ModelConfig& config, int64_t micro_batch, int64_t seq);

// A group of weight matrices, named as published splits of a step's FLOPs name it.
struct WeightPart {
  const char* name;
  int64_t layers;
  int64_t used;    // elements that one token meets in one layer
  int64_t stored;  // elements of one layer: more where a token meets some experts only
};
std::vector<WeightPart> weight_parts(const ModelConfig& config);

// Vectors (norms, biases, the router's correction) and the embedding counted in.
struct Parameters {
  int64_t total, active;
  int64_t mtp_unique;  // of the MTP layers alone
  int64_t mtp_copies;  // embedding and head that a checkpoint repeats for each of them
};
Parameters parameters_of(const ModelConfig& config);

std::vector<ActivationSize> activation_sizes(const ModelConfig& config, const Sizes& sizes);

}  // namespace spillway
