// The part of two training steps that a race check looks at, as events on lanes in one linear
// order: each body is put in order once, and its runs follow each other.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/schedule.h"

namespace spillway {

// Events of each lane, counted from the first: all that are finished, or had better be.
using Clock = std::array<int, lane_count>;

inline void join(Clock& clock, Clock other) {
  for (size_t lane = 0; lane < lane_count; ++lane)
    clock[lane] = clock[lane] < other[lane] ? other[lane] : clock[lane];
}

// The clock with another count on one lane. Written whole: a store of one count would hold up the
// load of all four that follows.
inline Clock with_count(Clock clock, size_t lane, int count) {
  static constexpr Clock only[lane_count] = {
      {-1, 0, 0, 0}, {0, -1, 0, 0}, {0, 0, -1, 0}, {0, 0, 0, -1}};
  for (size_t k = 0; k < lane_count; ++k)
    clock[k] = (count & only[lane][k]) | (clock[k] & ~only[lane][k]);
  return clock;
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

// Calls visit(event, clock) for every event in their order, with what is known to be finished when it
// begins: by program order on lanes and the waits whose site is not disabled.
template <class Visit>
void for_each_clock(const Unrolled& unrolled, const std::vector<bool>& disabled,
                    const Visit& visit) {
  std::array<Clock, lane_count> after{};  // of the last event of each lane
  std::vector<Clock> finished;            // after each event of this run
  for (const BodyRun& run : unrolled.runs) {
    const BodyEvents& body = unrolled.body_of(run);
    finished.resize(std::max(finished.size(), body.events.size()));
    for (size_t k = 0; k < body.events.size(); ++k) {
      const Event& event = body.events[k];
      const size_t lane = index_of(event.lane);
      Clock clock = after[lane];
      for (int w = event.first_wait; w < event.end_wait; ++w) {
        const EventWait& wait = body.waits[index_of(w)];
        if (!disabled[index_of(wait.site)]) join(clock, finished[index_of(wait.event)]);
      }
      visit(run.first_event + static_cast<int>(k), clock);
      after[lane] = finished[k] = with_count(clock, lane, run.before[lane] + event.sequence + 1);
    }
  }
}

}  // namespace spillway
