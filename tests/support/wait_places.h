// The waits of a schedule, each by its place, and the schedule with one less.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/schedule.h"

namespace spillway {

// Where waits[wait] of lanes[lane][step] of a segment stands.
struct WaitPlace {
  size_t segment = 0, lane = 0, step = 0, wait = 0;
};

inline std::vector<WaitPlace> places_of_waits(const Schedule& schedule) {
  std::vector<WaitPlace> places;
  for (size_t s = 0; s < schedule.segments.size(); ++s)
    for (size_t lane = 0; lane < lane_count; ++lane)
      for (size_t k = 0; k < schedule.segments[s].lanes[lane].size(); ++k)
        for (size_t w = 0; w < schedule.segments[s].lanes[lane][k].waits.size(); ++w)
          places.push_back({s, lane, k, w});
  return places;
}

inline Schedule without(Schedule schedule, const WaitPlace& place) {
  auto& waits = schedule.segments[place.segment].lanes[place.lane][place.step].waits;
  waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(place.wait));
  return schedule;
}

}  // namespace spillway
