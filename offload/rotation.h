// Stages of a software-pipelined body and the tensors that cross them. Private to offload/.
#pragma once

#include <vector>

#include "harness/program.h"
#include "offload/pipeline.h"

namespace spillway {

// Stage of an op: how many iterations behind the body's own one it works. 0 is the body, what is
// prefetched has a negative stage, what is drained a positive one.
inline constexpr int stage_body = 0;

// One stage an op of the segment; all stage_body when there is nothing to rotate. Host copies reach
// options.depth iterations (no further than the loop is long), collectives one.
std::vector<int> choose_stages(const Program& program, const Segment& segment,
                               const PipelineOptions& options);

// Gives every tensor that crosses stages its ring slots, or, with rotation_copies, one slot and a
// device-to-device copy; then puts the ops into the order in which the rotated body means them:
// drains, prefetches into rings, body, writes of drained shards, prefetches into single slots.
void carry_across_stages(Program& program, Segment& segment, std::vector<int>& stages,
                         const PipelineOptions& options);

}  // namespace spillway
