// What a host copy waits for before it begins, by mode of streams. Private to lay_out().
#pragma once

#include <vector>

#include "harness/schedule.h"

namespace spillway {

// Streams::precise. Replaces the waits of this segment's host copies. `before`: dependencies() of
// the segment.
void wait_for_producers(const Segment& segment, const std::vector<std::vector<int>>& before,
                        SegmentSchedule& schedule);

// Streams::xla. Adds the waits between host copies of the two directions that share a side stream.
void wait_for_side_streams(const Segment& segment, SegmentSchedule& schedule);

}  // namespace spillway
