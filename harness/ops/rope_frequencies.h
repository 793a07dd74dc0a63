// Frequencies of the rotary embedding, for every executor.
#pragma once

#include <vector>

#include "harness/program.h"

namespace spillway {

// The dim / 2 inverse frequencies in radians per position: theta^(-2 i / dim), and where rope.kind
// says so stretched as transformers' modeling_rope_utils.py does it.
std::vector<float> rope_frequencies(int64_t dim, const Rope& rope);

// What cosines and sines are multiplied by: 1 but for yarn.
double rope_attention_factor(const Rope& rope);

}  // namespace spillway
