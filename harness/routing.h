// What a Routing makes of tokens, known before anything runs where the choice needs no scores.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/program.h"

namespace spillway {

// Rows that each of routing.experts gets of tokens [first_token, first_token + tokens): as the op
// `router` chooses, by its own code (ops/router.cpp). Empty for the choice `model`.
std::optional<std::vector<int64_t>> rows_of_experts(const Routing& routing, int64_t first_token,
                                                    int64_t tokens);

}  // namespace spillway
