// Where one step of the compute lane went, op by op: inside ops, standing for other lanes, idle. An
// exact partition, so that two steps can be subtracted. No figures of a machine, no names for
// causes.
#pragma once

#include <vector>

#include "harness/measurement.h"

namespace spillway {

// All runs of one compute op in a step, and of their seconds those that passed while other lanes
// moved bytes.
struct BusyTime {
  int segment = 0, op = 0;
  int64_t runs = 0;
  double seconds = 0;
  double beside_collectives = 0, beside_copies = 0;  // one of the two alone
  double beside_both = 0;
};

struct LanePartition {
  std::vector<BusyTime> busy;   // by segment, then op; ops that ran
  std::vector<WaitTime> waits;  // waits_for() every other lane
  double idle = 0;
};

// The seconds of all parts together are trace.seconds.
LanePartition partition_compute_lane(const Trace& trace);

}  // namespace spillway
