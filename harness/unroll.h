// The part of two training steps that a race check looks at, as events on lanes in one linear
// order: each body is put in order once, and its runs follow each other.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/schedule.h"

namespace spillway {

// Events of each lane, counted from the first: all that are finished, or had better be.
using Clock = std::array<int, lane_count>;

inline void join(Clock& clock, const Clock& other) {
  for (size_t lane = 0; lane < lane_count; ++lane)
    clock[lane] = clock[lane] < other[lane] ? other[lane] : clock[lane];
}

inline bool covers(const Clock& known, const Clock& needed) {
  int missing = 0;
  for (size_t lane = 0; lane < lane_count; ++lane)
    missing |= known[lane] < needed[lane];
  return missing == 0;
}

// A wait as written in the schedule; in every run of its body an event waits because of it.
struct WaitSite {
  int segment = 0;
  Lane lane = Lane::compute;
  int step = 0, index = 0;
};

struct EventWait {
  int event = 0;  // of the same body, that must have finished
  int site = 0;   // index into Unrolled::sites
};

// Enter comes first and exit last on the compute lane of every run; only in a segment's first and
// last iteration do they mean anything.
enum class EventKind : uint8_t { enter, step, exit };

struct Event {
  EventKind kind = EventKind::step;
  Lane lane = Lane::compute;
  int position = 0;                  // index into SegmentSchedule::lanes[lane]
  int sequence = 0;                  // how many events of this body come before on this lane
  int first_wait = 0, end_wait = 0;  // in BodyEvents::waits
};

// A segment's body in an order that every lane and wait agrees with.
struct BodyEvents {
  std::vector<Event> events;
  std::vector<EventWait> waits;
  Clock count{};  // events per lane
};

// One execution of a body. Its events are numbered from `first_event` on.
struct BodyRun {
  int step = 0, segment = 0;
  int64_t iteration = 0;
  int first_event = 0;
  Clock before{};  // events of earlier runs, per lane
};

struct Unrolled {
  std::vector<BodyEvents> bodies;  // one per segment
  std::vector<BodyRun> runs;       // program order
  std::vector<WaitSite> sites;
  int events = 0;        // of all runs
  std::string deadlock;  // if not empty, no such order exists: who waits for whom

  const BodyEvents& body_of(const BodyRun& run) const { return bodies[index_of(run.segment)]; }
  const BodyRun& run_of(int event) const;
  const Event& at(int event) const;
  // Number of the event that comes as the `count`-th of its lane, counted from one.
  int event_of(size_t lane, int count) const;
};

// Iterations as window_of() (window.h) selects them. No wait crosses iterations, so the runs of one
// body all have the same order.
Unrolled unroll(const Schedule& schedule, int steps);

// Per event: what is known to be finished when it begins, by program order on lanes and the waits
// whose site is not disabled.
std::vector<Clock> clocks_of(const Unrolled& unrolled, const std::vector<bool>& disabled);

}  // namespace spillway
