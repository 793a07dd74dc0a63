// Loop rotation: ops of a body are moved one iteration away from the compute they serve.
#pragma once

#include "harness/program.h"

namespace spillway {

struct PipelineOptions {
  bool host_copies = false;  // --pipeline: D2H of i-1 during i, H2D of i+1 during i
  bool collectives = false;  // --pipeline-collectives: gathers of i+1, reduce-scatters of i-1
  bool rotation_copies =
      false;  // --rotation-copies: XLA's device-to-device copies instead of rings
};

// Software-pipelines every scanned segment (trips > 1) that has such ops: stage 0 prefetches,
// stage 1 computes, stage 2 drains. Loop-carried tensors become rings with one slot more than the
// distance they travel; prologue and epilogue are peeled into segments of trip count 1. Copies with
// rotation_copies: forward copies the carried value to a staging buffer that the D2H reads,
// backward lands in a staging buffer that is copied into the carried value (mechanisms.md 3.2, 3.7
// causes 2-3). Rotated collectives always use rings.
Program pipeline(const Program& program, const PipelineOptions& options);

}  // namespace spillway
