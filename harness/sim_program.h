// A schedule with what its ops demand, as the flat arrays that the simulator walks. Private to it.
#pragma once

#include <array>
#include <vector>

#include "harness/sim_demand.h"

namespace spillway {

struct SimWait {
  size_t on = 0;  // lane
  int64_t step = 0;
  int32_t op = 0;  // that is waited for
};

// One position on a lane.
struct SimStep {
  bool runs = false;  // else a start or a done
  int32_t op = 0;     // index into Segment::ops
  size_t work = 0;    // index into SimProgram::demands and moved
  size_t first_wait = 0, end_wait = 0;
};

struct SimLane {
  size_t first = 0;      // index into SimProgram::steps
  size_t steps = 0;      // of one iteration
  int64_t finished = 0;  // steps of this lane in the segments before
};

struct SimSegment {
  int64_t trips = 1;
  std::array<SimLane, lane_count> lanes;
};

struct SimProgram {
  std::vector<SimSegment> segments;
  std::vector<SimStep> steps;
  std::vector<SimWait> waits;
  std::vector<Demand> demands;  // of every op of every segment in turn
  std::vector<int64_t> moved;   // bytes over the link or through a collective, likewise
  size_t spans = 0;             // at most so many in a step of one iteration a segment
};

SimProgram flatten(const Schedule& schedule, const Machine& machine, const SimOptions& options);

}  // namespace spillway
