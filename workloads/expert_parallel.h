// The rewrite that spreads experts over ranks. Private to workloads/: shard() calls it before FSDP.
#pragma once

#include <set>

#include "harness/program.h"
#include "workloads/shard.h"

namespace spillway {

// Weights of experts, as ops read them.
std::set<TensorId> expert_weights(const Program& program);

// Each rank holds 1/ranks of the experts. Rows sorted by expert go to the ranks that hold theirs
// (all_to_all), through the experts, and back: in the forward, in the backward, and, as these are
// ops like others, again where a policy recomputes. What a rank receives is data and planned as
// ragged_buffer_factor times what it sends; the capacity path sends exactly what it receives.
// Throws InputError where the experts cannot be divided.
Program spread_experts(Program program, const ExpertParallel& parallel);

}  // namespace spillway
