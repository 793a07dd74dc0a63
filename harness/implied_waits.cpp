// Takes out one wait at a time and follows what changes from there on, as far as it does.
#include "harness/implied_waits.h"

#include <bit>

namespace spillway {
namespace {

// Events to look at again, lowest number first.
class Agenda {
 public:
  explicit Agenda(size_t events) : words_(events / 64 + 1), lowest_(words_.size()) {}

  void add(int event) {
    const size_t word = index_of(event) / 64;
    words_[word] |= uint64_t{1} << (index_of(event) % 64);
    if (word < lowest_) lowest_ = word;
  }
  // -1: none left.
  int take() {
    for (; lowest_ < words_.size(); ++lowest_) {
      uint64_t& word = words_[lowest_];
      if (word == 0) continue;
      const size_t event = lowest_ * 64 + static_cast<size_t>(std::countr_zero(word));
      word &= word - 1;
      return static_cast<int>(event);
    }
    return -1;
  }
  void clear() {
    while (take() >= 0) {
    }
  }

 private:
  std::vector<uint64_t> words_;
  size_t lowest_;
};

// Per event of a body, the events of the body that wait for it.
std::vector<std::vector<int>> waiting_in(const BodyEvents& body) {
  std::vector<std::vector<int>> waiting(body.events.size());
  for (size_t k = 0; k < body.events.size(); ++k)
    for (int w = body.events[k].first_wait; w < body.events[k].end_wait; ++w)
      waiting[index_of(body.waits[index_of(w)].event)].push_back(static_cast<int>(k));
  return waiting;
}

class Thinner {
 public:
  Thinner(const Unrolled& unrolled, const std::vector<Clock>& needed, std::vector<Clock> known)
      : unrolled_(unrolled),
        needed_(needed),
        dropped_(unrolled.sites.size()),
        known_(std::move(known)),
        links_(known_.size()),
        runs_of_segment_(unrolled.bodies.size()),
        agenda_(known_.size()) {
    for (const BodyEvents& body : unrolled.bodies)
      waiting_.push_back(waiting_in(body));
    std::array<int, lane_count> last{-1, -1, -1, -1};
    for (size_t r = 0; r < unrolled.runs.size(); ++r) {
      const BodyRun& run = unrolled.runs[r];
      runs_of_segment_[index_of(run.segment)].push_back(static_cast<int>(r));
      int e = run.first_event;
      for (const Event& event : unrolled.body_of(run).events) {
        int& previous = last[index_of(event.lane)];
        links_[index_of(e)] = {static_cast<int>(r), previous, -1};
        if (previous >= 0) links_[index_of(previous)].next = e;
        previous = e++;
      }
    }
  }

  std::vector<bool> thin() {
    std::vector<int> event_at(unrolled_.sites.size());  // in its body
    for (const BodyEvents& body : unrolled_.bodies)
      for (size_t k = 0; k < body.events.size(); ++k)
        for (int w = body.events[k].first_wait; w < body.events[k].end_wait; ++w)
          event_at[index_of(body.waits[index_of(w)].site)] = static_cast<int>(k);
    for (size_t site = 0; site < event_at.size(); ++site) {
      dropped_[site] = true;
      if (!still_ordered(unrolled_.sites[site].segment, event_at[site])) restore(site);
    }
    return std::move(dropped_);
  }

 private:
  struct Links {
    int run = 0, previous = -1, next = -1;  // neighbours on the lane
  };
  struct Change {
    int event = 0;
    Clock known;  // before it
  };

  // After a wait of this event of a body was dropped.
  bool still_ordered(int segment, int event) {
    changes_.clear();
    for (const int r : runs_of_segment_[index_of(segment)])
      agenda_.add(unrolled_.runs[index_of(r)].first_event + event);
    for (int e = agenda_.take(); e >= 0; e = agenda_.take()) {
      const Clock clock = clock_before(e);
      Clock& known = known_[index_of(e)];
      if (clock == known) continue;
      changes_.push_back({e, known});
      known = clock;
      if (!covers(clock, needed_[index_of(e)])) return false;
      add_followers(e);
    }
    return true;
  }

  void restore(size_t site) {
    dropped_[site] = false;
    agenda_.clear();
    for (const Change& change : changes_)
      known_[index_of(change.event)] = change.known;
  }

  Clock clock_before(int e) const {
    const Links& links = links_[index_of(e)];
    const BodyRun& run = unrolled_.runs[index_of(links.run)];
    const BodyEvents& body = unrolled_.body_of(run);
    const Event& event = body.events[index_of(e - run.first_event)];
    Clock clock = links.previous < 0 ? Clock{} : clock_after(links.previous);
    for (int w = event.first_wait; w < event.end_wait; ++w) {
      const EventWait& wait = body.waits[index_of(w)];
      if (!dropped_[index_of(wait.site)]) join(clock, clock_after(run.first_event + wait.event));
    }
    return clock;
  }

  Clock clock_after(int e) const {
    const BodyRun& run = unrolled_.runs[index_of(links_[index_of(e)].run)];
    const Event& event = unrolled_.body_of(run).events[index_of(e - run.first_event)];
    const size_t lane = index_of(event.lane);
    return with_count(known_[index_of(e)], lane, run.before[lane] + event.sequence + 1);
  }

  void add_followers(int e) {
    const Links& links = links_[index_of(e)];
    if (links.next >= 0) agenda_.add(links.next);
    const BodyRun& run = unrolled_.runs[index_of(links.run)];
    for (const int waiting : waiting_[index_of(run.segment)][index_of(e - run.first_event)])
      agenda_.add(run.first_event + waiting);
  }

  const Unrolled& unrolled_;
  const std::vector<Clock>& needed_;
  std::vector<bool> dropped_;  // per site
  std::vector<Clock> known_;   // per event, without what is dropped
  std::vector<Links> links_;   // per event
  std::vector<std::vector<int>> runs_of_segment_;
  std::vector<std::vector<std::vector<int>>> waiting_;  // per segment
  Agenda agenda_;
  std::vector<Change> changes_;
};

}  // namespace

std::vector<bool> implied_waits(const Unrolled& unrolled, const std::vector<Clock>& needed,
                                std::vector<Clock> known) {
  return Thinner(unrolled, needed, std::move(known)).thin();
}

}  // namespace spillway
