// Combining of collectives: many small ones become few with several operands, as XLA's combiners
// do after its collective pipeliner.
#pragma once

#include <cstdint>

#include "harness/program.h"

namespace spillway {

// In every body, gathers are joined with gathers and reduce-scatters with reduce-scatters over as
// many devices, each group up to `threshold` bytes of full (gathered) buffers. As in XLA's
// collective combiners (xla/service/collective_combiner_utils.h) a group is filled greedily in
// program order; what is larger than the threshold by itself stays alone, and so does what depends
// on a member of the group or is depended on. A threshold of 0 joins nothing.
Program combine_collectives(Program program, int64_t threshold);

}  // namespace spillway
