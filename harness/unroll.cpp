// Unrolls a schedule around what repeats and finds one linear order of its events.
#include "harness/unroll.h"

#include <algorithm>

#include "harness/error.h"
#include "harness/window.h"

namespace spillway {
namespace {

std::vector<WaitSite> sites_of(const Schedule& schedule) {
  std::vector<WaitSite> sites;
  for (size_t s = 0; s < schedule.segments.size(); ++s) {
    for (int lane = 0; lane < lane_count; ++lane) {
      const std::vector<LaneStep>& steps = schedule.segments[s].lanes[lane];
      for (size_t k = 0; k < steps.size(); ++k) {
        for (size_t w = 0; w < steps[k].waits.size(); ++w) {
          sites.push_back({static_cast<int>(s), static_cast<Lane>(lane), static_cast<int>(k),
                           static_cast<int>(w)});
        }
      }
    }
  }
  return sites;
}

std::vector<BodyRun> runs_of(const Program& program, int steps) {
  std::vector<BodyRun> runs;
  for (int step = 0; step < steps; ++step) {
    for (size_t s = 0; s < program.segments.size(); ++s) {
      const Window window = window_of(program, program.segments[s]);
      for (int64_t i = 0; i < program.segments[s].trips; ++i) {
        if (window.head <= i && i < window.tail) i = window.tail;
        runs.push_back({step, static_cast<int>(s), i});
      }
    }
  }
  return runs;
}

// Lets every lane go as far as its waits allow, until all are through or none can move.
class Linearizer {
 public:
  Linearizer(const Schedule& schedule, Unrolled& result) : schedule_(schedule), result_(result) {
    size_t site = 0;
    first_site_.resize(schedule.segments.size());
    for (size_t s = 0; s < schedule.segments.size(); ++s) {
      for (size_t lane = 0; lane < lane_count; ++lane) {
        for (const LaneStep& step : schedule.segments[s].lanes[lane]) {
          first_site_[s][lane].push_back(static_cast<int>(site));
          site += step.waits.size();
        }
      }
    }
    for (size_t run = 0; run < result.runs.size(); ++run)
      queue_run(static_cast<int>(run));
  }

  void run() {
    size_t placed = 0;
    for (size_t before = 0; placed < total_; before = placed) {
      for (int lane = 0; lane < lane_count; ++lane) {
        while (advance(index_of(lane)))
          ++placed;
      }
      if (placed == before) {
        result_.deadlock = describe_deadlock();
        return;
      }
    }
  }

 private:
  void queue_run(int r) {
    const BodyRun& run = result_.runs[index_of(r)];
    const SegmentSchedule& segment = schedule_.segments[index_of(run.segment)];
    const auto add = [&](EventKind kind, Lane lane, int position) {
      std::vector<Event>& queue = queue_[index_of(lane)];
      queue.push_back({kind, lane, r, position, static_cast<int>(queue.size()), {}});
      ++total_;
    };
    if (run.iteration == 0) add(EventKind::enter, Lane::compute, 0);
    std::array<int, lane_count> base{};
    for (size_t lane = 0; lane < lane_count; ++lane) {
      base[lane] = static_cast<int>(queue_[lane].size());
      for (size_t k = 0; k < segment.lanes[lane].size(); ++k) {
        add(EventKind::step, static_cast<Lane>(lane), static_cast<int>(k));
      }
    }
    base_.push_back(base);
    const int64_t trips = schedule_.program.segments[index_of(run.segment)].trips;
    if (run.iteration == trips - 1) add(EventKind::exit, Lane::compute, 0);
  }

  const LaneStep& step_of(const Event& event) const {
    const int segment = result_.runs[index_of(event.run)].segment;
    return schedule_.segments[index_of(segment)]
        .lanes[index_of(event.lane)][index_of(event.position)];
  }

  // Place in its lane's queue of the step that a wait of this event is for.
  size_t target_of(const Event& event, const Wait& wait) const {
    const int segment = result_.runs[index_of(event.run)].segment;
    const size_t steps = schedule_.segments[index_of(segment)].lanes[index_of(wait.on)].size();
    check(wait.step >= 0 && index_of(wait.step) < steps, "segment ", segment, ": a wait for step ",
          wait.step, " of lane ", name_of(wait.on), ", which has ", steps);
    return index_of(base_[index_of(event.run)][index_of(wait.on)] + wait.step);
  }

  const Wait* missing(const Event& event) const {
    if (event.kind != EventKind::step) return nullptr;
    for (const Wait& wait : step_of(event).waits) {
      if (target_of(event, wait) >= placed_[index_of(wait.on)].size()) return &wait;
    }
    return nullptr;
  }

  bool advance(size_t lane) {
    const size_t next = placed_[lane].size();
    if (next == queue_[lane].size() || missing(queue_[lane][next])) return false;
    Event event = queue_[lane][next];
    if (event.kind == EventKind::step) {
      int site = first_site_[index_of(result_.runs[index_of(event.run)].segment)][lane]
                            [index_of(event.position)];
      for (const Wait& wait : step_of(event).waits) {
        event.waits.push_back({placed_[index_of(wait.on)][target_of(event, wait)], site++});
      }
    }
    placed_[lane].push_back(static_cast<int>(result_.events.size()));
    result_.events.push_back(std::move(event));
    return true;
  }

  std::string describe_deadlock() const {
    std::string out = "deadlock:";
    for (size_t lane = 0; lane < lane_count; ++lane) {
      if (placed_[lane].size() == queue_[lane].size()) continue;
      const Event& event = queue_[lane][placed_[lane].size()];
      const BodyRun& run = result_.runs[index_of(event.run)];
      const Segment& segment = schedule_.program.segments[index_of(run.segment)];
      const Wait* wait = missing(event);
      out += text(" lane ", name_of(event.lane), " stands before \"",
                  segment.ops[index_of(step_of(event).op)].name, "\" of segment \"", segment.name,
                  "\", iteration ", run.iteration, ", waiting for step ", wait->step, " of lane ",
                  name_of(wait->on), ";");
    }
    return out;
  }

  const Schedule& schedule_;
  Unrolled& result_;
  std::vector<std::array<std::vector<int>, lane_count>> first_site_;  // per segment, lane, step
  std::array<std::vector<Event>, lane_count> queue_;                  // all events, lane order
  std::array<std::vector<int>, lane_count> placed_;                   // their numbers so far
  std::vector<std::array<int, lane_count>> base_;  // per run: place of its first step on each lane
  size_t total_ = 0;
};

}  // namespace

Unrolled unroll(const Schedule& schedule, int steps) {
  Unrolled result;
  result.sites = sites_of(schedule);
  result.runs = runs_of(schedule.program, steps);
  Linearizer(schedule, result).run();
  return result;
}

std::vector<Clock> clocks_of(const Unrolled& unrolled, const std::vector<bool>& disabled) {
  std::vector<Clock> before(unrolled.events.size());
  std::array<Clock, lane_count> after{};  // of the last event of each lane
  std::vector<Clock> finished(unrolled.events.size());
  for (size_t e = 0; e < unrolled.events.size(); ++e) {
    const Event& event = unrolled.events[e];
    Clock clock = after[index_of(event.lane)];
    for (const EventWait& wait : event.waits) {
      if (disabled[index_of(wait.site)]) continue;
      const Clock& other = finished[index_of(wait.event)];
      for (size_t lane = 0; lane < lane_count; ++lane)
        clock[lane] = std::max(clock[lane], other[lane]);
    }
    before[e] = clock;
    clock[index_of(event.lane)] = event.sequence + 1;
    after[index_of(event.lane)] = finished[e] = clock;
  }
  return before;
}

}  // namespace spillway
