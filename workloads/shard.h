// The rewrite for N devices: FSDP. One rule for all workloads, before the policy.
#pragma once

#include "harness/program.h"

namespace spillway {

// Weights, optimizer state and gradients become 1/N shards (flat, rounded up to whole elements per
// slice). In each body: slice_cast of the stacked shard and all_gather before the first use;
// reduce_scatter of the bf16 gradient and write_slice into the stacked fp32 gradient as ops of
// their own. Batch stays per device. devices = 1 returns the program unchanged.
Program shard(const Program& program, int64_t devices);

}  // namespace spillway
