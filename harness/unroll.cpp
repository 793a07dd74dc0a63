// Puts each body in order and lists its runs around what repeats.
#include "harness/unroll.h"

#include <algorithm>

#include "harness/error.h"
#include "harness/window.h"

namespace spillway {
namespace {

constexpr int not_yet = -1;

void add_runs(const Program& program, int steps, Unrolled& result) {
  std::vector<Window> windows;
  for (const Segment& segment : program.segments)
    windows.push_back(window_of(program, segment));
  Clock before{};
  for (int step = 0; step < steps; ++step) {
    for (size_t s = 0; s < program.segments.size(); ++s) {
      const BodyEvents& body = result.bodies[s];
      for_each_iteration(windows[s], program.segments[s].trips, [&](int64_t i) {
        result.runs.push_back({step, static_cast<int>(s), i, result.events, before});
        result.events += static_cast<int>(body.events.size());
        for (size_t lane = 0; lane < lane_count; ++lane)
          before[lane] += body.count[lane];
      });
    }
  }
}

// Lets every lane of a body go as far as its waits allow, until all are through or none can move.
class Linearizer {
 public:
  Linearizer(const Schedule& schedule, int segment, int first_site)
      : schedule_(schedule), lanes_(schedule.segments[index_of(segment)].lanes), segment_(segment) {
    int site = first_site;
    for (size_t lane = 0; lane < lane_count; ++lane) {
      number_[lane].assign(lanes_[lane].size(), not_yet);
      total_ += lanes_[lane].size();
      for (const LaneStep& step : lanes_[lane]) {
        first_site_[lane].push_back(site);
        site += static_cast<int>(step.waits.size());
      }
    }
  }

  // Returns who waits for whom where it cannot be done.
  std::string run(BodyEvents& body) {
    body.events.reserve(total_ + 2);
    add(EventKind::enter, 0, 0, body);
    size_t placed = 0;
    for (size_t before = 0; placed < total_; before = placed) {
      for (size_t lane = 0; lane < lane_count; ++lane) {
        for (; next_[lane] < lanes_[lane].size() && !missing(lane); ++placed)
          place(lane, body);
      }
      if (placed == before) return describe_deadlock();
    }
    add(EventKind::exit, 0, 0, body);
    return {};
  }

 private:
  const Wait* missing(size_t lane) const {
    for (const Wait& wait : lanes_[lane][next_[lane]].waits) {
      const size_t steps = lanes_[index_of(wait.on)].size();
      check(wait.step >= 0 && index_of(wait.step) < steps, "segment ", segment_,
            ": a wait for step ", wait.step, " of lane ", name_of(wait.on), ", which has ", steps);
      if (number_[index_of(wait.on)][index_of(wait.step)] == not_yet) return &wait;
    }
    return nullptr;
  }

  void place(size_t lane, BodyEvents& body) {
    const size_t position = next_[lane]++;
    number_[lane][position] = static_cast<int>(body.events.size());
    int site = first_site_[lane][position];
    const int first_wait = static_cast<int>(body.waits.size());
    for (const Wait& wait : lanes_[lane][position].waits)
      body.waits.push_back({number_[index_of(wait.on)][index_of(wait.step)], site++});
    add(EventKind::step, lane, static_cast<int>(position), body);
    body.events.back().first_wait = first_wait;
  }

  static void add(EventKind kind, size_t lane, int position, BodyEvents& body) {
    const int waits = static_cast<int>(body.waits.size());
    body.events.push_back(
        {kind, static_cast<Lane>(lane), position, body.count[lane]++, waits, waits});
  }

  std::string describe_deadlock() const {
    std::string out = "deadlock:";
    const Segment& segment = schedule_.program.segments[index_of(segment_)];
    for (size_t lane = 0; lane < lane_count; ++lane) {
      if (next_[lane] == lanes_[lane].size()) continue;
      const Wait* wait = missing(lane);
      out += text(" lane ", name_of(static_cast<Lane>(lane)), " stands before \"",
                  segment.ops[index_of(lanes_[lane][next_[lane]].op)].name, "\" of segment \"",
                  segment.name, "\", waiting for step ", wait->step, " of lane ", name_of(wait->on),
                  ";");
    }
    return out;
  }

  const Schedule& schedule_;
  const std::vector<LaneStep> (&lanes_)[lane_count];
  int segment_;
  std::array<std::vector<int>, lane_count> first_site_, number_;  // per step: site, event
  std::array<size_t, lane_count> next_{};
  size_t total_ = 0;
};

void add_sites(const Schedule& schedule, size_t s, std::vector<WaitSite>& sites) {
  for (size_t lane = 0; lane < lane_count; ++lane) {
    const std::vector<LaneStep>& steps = schedule.segments[s].lanes[lane];
    for (size_t k = 0; k < steps.size(); ++k) {
      for (size_t w = 0; w < steps[k].waits.size(); ++w) {
        sites.push_back({static_cast<int>(s), static_cast<Lane>(lane), static_cast<int>(k),
                         static_cast<int>(w)});
      }
    }
  }
}

}  // namespace

const BodyRun& Unrolled::run_of(int event) const {
  const auto after = [](int number, const BodyRun& run) { return number < run.first_event; };
  return *std::prev(std::upper_bound(runs.begin(), runs.end(), event, after));
}

const Event& Unrolled::at(int event) const {
  const BodyRun& run = run_of(event);
  return body_of(run).events[index_of(event - run.first_event)];
}

int Unrolled::event_of(size_t lane, int count) const {
  const auto after = [&](int number, const BodyRun& run) { return number <= run.before[lane]; };
  const BodyRun& run = *std::prev(std::upper_bound(runs.begin(), runs.end(), count, after));
  const std::vector<Event>& list = body_of(run).events;
  const auto found = std::find_if(list.begin(), list.end(), [&](const Event& event) {
    return index_of(event.lane) == lane && run.before[lane] + event.sequence + 1 == count;
  });
  return run.first_event + static_cast<int>(found - list.begin());
}

Unrolled unroll(const Schedule& schedule, int steps) {
  Unrolled result;
  result.bodies.resize(schedule.segments.size());
  for (size_t s = 0; s < schedule.segments.size(); ++s) {
    const int first_site = static_cast<int>(result.sites.size());
    add_sites(schedule, s, result.sites);
    result.deadlock = Linearizer(schedule, static_cast<int>(s), first_site).run(result.bodies[s]);
    if (!result.deadlock.empty()) return result;
  }
  add_runs(schedule.program, steps, result);
  return result;
}

}  // namespace spillway
