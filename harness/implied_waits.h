// Which waits of a schedule are superfluous: without them everything is ordered that must be.
#pragma once

#include <vector>

#include "harness/unroll.h"

namespace spillway {

// Per event, what must be finished before it (AccessMap::needed) and what is known to be with all
// waits (for_each_clock()), which must cover it. Site by site, in their order: dropped if, after those
// dropped before, all that is needed is known without it too. One pass is enough: with fewer waits, a
// wait that was needed before is needed still.
std::vector<bool> implied_waits(const Unrolled& unrolled, const std::vector<Clock>& needed,
                                std::vector<Clock> known);

}  // namespace spillway
