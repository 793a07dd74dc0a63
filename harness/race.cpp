// find_race() and drop_implied_waits(): what must be ordered (access_map.h) against what lanes and
// waits do order (unroll.h).
#include "harness/race.h"

#include "harness/access_map.h"
#include "harness/error.h"
#include "harness/implied_waits.h"
#include "harness/unroll.h"

namespace spillway {
namespace {

constexpr int steps_looked_at = 2;  // a step, and what the next one may do to it

class Proof {
 public:
  Proof(const Schedule& schedule, const Plan& plan)
      : schedule_(schedule), plan_(plan), unrolled_(unroll(schedule, steps_looked_at)) {
    if (unrolled_.deadlock.empty()) map_ = map_accesses(schedule, plan, unrolled_);
  }

  std::vector<bool> no_sites() const { return std::vector<bool>(unrolled_.sites.size()); }

  // Without the waits of disabled sites.
  std::optional<Race> race(const std::vector<bool>& disabled) const {
    if (!unrolled_.deadlock.empty()) return Race{unrolled_.deadlock};
    int first = -1;
    Clock known{};
    for_each_clock(unrolled_, disabled, [&](int event, const Clock& clock) {
      if (first >= 0 || covers(clock, map_.needed[index_of(event)])) return;
      first = event;
      known = clock;
    });
    if (first >= 0) return Race{unordered(first, known)};
    if (map_.violation) return Race{*map_.violation};
    return std::nullopt;
  }

  // Of a schedule without a race.
  std::vector<bool> implied() const {
    std::vector<Clock> known;
    known.reserve(map_.needed.size());
    for_each_clock(unrolled_, no_sites(), [&](int, const Clock& clock) { known.push_back(clock); });
    return implied_waits(unrolled_, map_.needed, std::move(known));
  }

  Schedule without(Schedule schedule, const std::vector<bool>& disabled) const {
    for (size_t k = unrolled_.sites.size(); k-- > 0;) {  // backwards, so that indices stay true
      if (!disabled[k]) continue;
      const WaitSite& site = unrolled_.sites[k];
      LaneStep& step =
          schedule.segments[index_of(site.segment)].lanes[index_of(site.lane)][index_of(site.step)];
      step.waits.erase(step.waits.begin() + site.index);
    }
    return schedule;
  }

 private:
  std::string unordered(int event, const Clock& known) const {
    const Clock& needed = map_.needed[index_of(event)];
    size_t lane = 0;
    while (known[lane] >= needed[lane])
      ++lane;
    return "not ordered: " + describe_conflict(schedule_, plan_, unrolled_,
                                               unrolled_.event_of(lane, needed[lane]), event);
  }

  const Schedule& schedule_;
  const Plan& plan_;
  Unrolled unrolled_;
  AccessMap map_;
};

}  // namespace

std::optional<Race> find_race(const Schedule& schedule, const Plan& plan) {
  const Proof proof(schedule, plan);
  return proof.race(proof.no_sites());
}

Proven drop_and_prove(Schedule schedule, const Plan& plan) {
  const Proof proof(schedule, plan);
  if (std::optional<Race> race = proof.race(proof.no_sites()))
    return {std::move(schedule), std::move(race)};  // nothing is implied in a race
  const std::vector<bool> implied = proof.implied();
  std::optional<Race> race = proof.race(implied);
  return {proof.without(std::move(schedule), implied), std::move(race)};
}

Proven prove(Schedule schedule, const Plan& plan) {
  std::optional<Race> race = find_race(schedule, plan);
  return {std::move(schedule), std::move(race)};
}

Schedule drop_implied_waits(Schedule schedule, const Plan& plan) {
  return drop_and_prove(std::move(schedule), plan).schedule;
}

}  // namespace spillway
