// Loop rotation: ops of a body are moved some iterations away from the compute they serve.
#pragma once

#include <cstdint>

#include "harness/program.h"

namespace spillway {

struct PipelineOptions {
  bool host_copies = false;  // --pipeline: D2H of i-N during i, H2D of i+N during i; N is `depth`
  bool collectives = false;  // --pipeline-collectives: gathers of i+1, reduce-scatters of i-1
  bool rotation_copies =
      false;           // --rotation-copies: XLA's device-to-device copies instead of rings
  int64_t depth = 1;   // --pipeline-depth; XLA's, and the only one of rotation copies, is 1
  int64_t unroll = 1;  // --unroll: iterations in one body of a rotated loop, 1 or 2
};

// Software-pipelines every scanned segment (trips > 1) that has such ops: prefetch, compute, drain.
// Loop-carried tensors become rings with one slot more than the distance they travel; prologue and
// epilogue are peeled into segments of trip count 1. A depth beyond a loop's trips is its trips.
// Where the last writes or first reads of a loop meet one that nothing rotates (a resident tail), an
// iteration of that is peeled to stand beside them.
//
// Copies with rotation_copies, of which XLA makes each for a reason of its own: forward copies the
// carried value, a parameter of the loop, to a staging buffer that the D2H reads (its scheduling fix
// for updates that alias a parameter), and what the body makes into the carried value (CopyInsertion
// comes before scheduling and cannot see that the parameter is read early); backward lands in a
// staging buffer that is copied into the carried value (CopyInsertion likewise). mechanisms.md 3.2,
// 3.7 causes 2-3. Rotated collectives always use rings.
//
// Unrolled twice (XLA's while-loop double buffering), the steady body runs two iterations and an
// odd one is peeled in front. Loop state then has two slots used in turn, so copies into carried values
// are gone; those before a write to the host, which XLA inserts before it unrolls, stay.
Program pipeline(Program program, const PipelineOptions& options);

}  // namespace spillway
