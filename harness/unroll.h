// The part of two training steps that a race check looks at, as events on lanes in one linear
// order.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/schedule.h"

namespace spillway {

// One execution of a body.
struct BodyRun {
  int step = 0, segment = 0;
  int64_t iteration = 0;
};

// A wait as written in the schedule; many events wait because of it.
struct WaitSite {
  int segment = 0;
  Lane lane = Lane::compute;
  int step = 0, index = 0;
};

struct EventWait {
  int event = 0;  // that must have finished
  int site = 0;   // index into Unrolled::sites
};

enum class EventKind : uint8_t { enter, step, exit };  // of a segment; a step of a lane

struct Event {
  EventKind kind = EventKind::step;
  Lane lane = Lane::compute;
  int run = 0;       // index into Unrolled::runs
  int position = 0;  // index into SegmentSchedule::lanes[lane]
  int sequence = 0;  // how many events came before on this lane
  std::vector<EventWait> waits;
};

struct Unrolled {
  std::vector<BodyRun> runs;  // program order
  std::vector<Event> events;  // an order every lane and wait agrees with
  std::vector<WaitSite> sites;
  std::string deadlock;  // if not empty, no such order exists: who waits for whom
};

// Iterations as window_of() (window.h) selects them.
Unrolled unroll(const Schedule& schedule, int steps);

// completed[e][lane]: how many events of that lane are known to be finished when event e begins,
// by program order on lanes and the waits whose site is not disabled.
using Clock = std::array<int, lane_count>;
std::vector<Clock> clocks_of(const Unrolled& unrolled, const std::vector<bool>& disabled);

}  // namespace spillway
