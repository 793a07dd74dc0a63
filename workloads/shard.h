// The rewrite for N devices: FSDP. One rule for all workloads, before the policy.
#pragma once

#include "harness/program.h"

namespace spillway {

// Experts may be spread over `ranks` devices each before that: a device then holds the experts of
// its rank only, in 1/(N / ranks) shards, and rows of tokens travel (expert_parallel.h).
struct ExpertParallel {
  int64_t ranks = 1;
  double ragged_buffer_factor = 1;  // rows planned to come to a rank over those it sends
};

// Weights, optimizer state and gradients become 1/N shards (flat, rounded up to whole elements per
// slice). In each body: slice_cast of the stacked shard and all_gather before the first use;
// reduce_scatter of the bf16 gradient and write_slice into the stacked fp32 gradient as ops of
// their own. Batch stays per device. devices = 1 returns the program unchanged. Throws InputError
// for ranks that do not divide devices or experts.
Program shard(Program program, int64_t devices, const ExpertParallel& experts = {});

}  // namespace spillway
