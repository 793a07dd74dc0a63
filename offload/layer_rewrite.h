// The policy's rewrite of one scanned stack: a forward segment and the backward segment that reads
// its values. Private to offload/.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/program.h"
#include "offload/policy_fates.h"

namespace spillway {

// What one rewrite did. Tensors are ids of the forward segment's own (hidden included).
struct LayerRewrite {
  std::vector<TensorId> kept, moved, recomputed;
  int64_t layers = 0;
  int backward = 0;         // segment
  std::vector<int> clones;  // ops of the backward segment that run a second time
};

// `backward` indexes the segment; its forward_segment names the other one. `fates` is per tensor.
// Of resident layers (resident_tail.h) what the fates offload stays on the device: a stacked
// residual, and for a carry as many slots of its ring as the resident layers have inputs.
LayerRewrite rewrite_layers(Program& program, int backward, const std::vector<TensorFate>& fates,
                            bool resident = false);

}  // namespace spillway
