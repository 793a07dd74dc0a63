// Rotary embedding's frequencies.
#pragma once

#include <vector>

#include "harness/program.h"

namespace spillway {

// The head_dim / 2 inverse frequencies in radians per position: theta^(-2 i / head_dim), and where
// rope.factor is not 1 Llama 3's scaling, as transformers' _compute_llama3_parameters does it.
std::vector<float> rope_frequencies(int64_t head_dim, const Rope& rope);

}  // namespace spillway
