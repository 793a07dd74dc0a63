// In which order the host hands a body's lane steps to their streams. An event must be recorded
// before anyone is told to wait for it, so the order is one that every wait agrees with.
#pragma once

#include <vector>

#include "harness/schedule.h"

namespace spillway {

struct Issue {
  Lane lane = Lane::compute;
  int step = 0;  // index into SegmentSchedule::lanes[lane]
  friend bool operator==(const Issue&, const Issue&) = default;
};

// Every step of every lane once, each after those it waits for and those before it on its lane.
// Copies and collectives come as soon as that allows: their queues are full before compute goes on.
// Throws std::logic_error where lanes wait for each other in a circle.
std::vector<Issue> issue_order(const SegmentSchedule& segment);

// Which steps of each lane another lane waits for: those that need an event.
std::vector<std::vector<bool>> awaited_steps(const SegmentSchedule& segment);

}  // namespace spillway
