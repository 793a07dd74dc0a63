// find_race() and drop_implied_waits(): accesses that must be ordered (access_map.h) against what
// lanes and waits do order (unroll.h).
#include "harness/race.h"

#include "harness/access_map.h"
#include "harness/error.h"
#include "harness/unroll.h"

namespace spillway {
namespace {

constexpr int steps_looked_at = 2;  // a step, and what the next one may do to it

struct Proof {
  Unrolled unrolled;
  AccessMap map;
};

Proof prepare(const Schedule& schedule, const Plan& plan) {
  Proof proof;
  proof.unrolled = unroll(schedule, steps_looked_at);
  if (proof.unrolled.deadlock.empty()) proof.map = map_accesses(schedule, plan, proof.unrolled);
  return proof;
}

// The first two accesses that neither lanes nor the waits of enabled sites order.
const Conflict* find_unordered(const Proof& proof, const std::vector<bool>& disabled) {
  const std::vector<Clock> before = clocks_of(proof.unrolled, disabled);
  for (const Conflict& conflict : proof.map.conflicts) {
    const auto event_of = [&](int access) {
      return static_cast<size_t>(proof.map.accesses[static_cast<size_t>(access)].event);
    };
    const Event& earlier = proof.unrolled.events[event_of(conflict.earlier)];
    const Clock& known = before[event_of(conflict.later)];
    if (known[index_of(earlier.lane)] <= earlier.sequence) return &conflict;
  }
  return nullptr;
}

std::vector<Wait>& waits_at(Schedule& schedule, const WaitSite& site) {
  SegmentSchedule& segment = schedule.segments[static_cast<size_t>(site.segment)];
  return segment.lanes[index_of(site.lane)][static_cast<size_t>(site.step)].waits;
}

}  // namespace

std::optional<Race> find_race(const Schedule& schedule, const Plan& plan) {
  const Proof proof = prepare(schedule, plan);
  if (!proof.unrolled.deadlock.empty()) return Race{proof.unrolled.deadlock};
  const std::vector<bool> none(proof.unrolled.sites.size());
  if (const Conflict* conflict = find_unordered(proof, none)) {
    const auto told = [&](int access) {
      return describe(schedule, plan, proof.unrolled,
                      proof.map.accesses[static_cast<size_t>(access)]);
    };
    return Race{text("not ordered: ", told(conflict->earlier), " and ", told(conflict->later))};
  }
  if (proof.map.violation) return Race{*proof.map.violation};
  return std::nullopt;
}

Schedule drop_implied_waits(Schedule schedule, const Plan& plan) {
  const Proof proof = prepare(schedule, plan);
  const std::vector<WaitSite>& sites = proof.unrolled.sites;
  std::vector<bool> dropped(sites.size());
  const bool sound = proof.unrolled.deadlock.empty() && !proof.map.violation;
  if (!sound || find_unordered(proof, dropped)) return schedule;  // nothing is implied in a race
  // One pass is enough: with fewer waits, a wait that was needed before is needed still.
  for (size_t k = 0; k < sites.size(); ++k) {
    dropped[k] = true;
    if (find_unordered(proof, dropped)) dropped[k] = false;
  }
  for (size_t k = sites.size(); k-- > 0;) {  // backwards, so that indices stay true
    if (!dropped[k]) continue;
    std::vector<Wait>& waits = waits_at(schedule, sites[k]);
    waits.erase(waits.begin() + sites[k].index);
  }
  return schedule;
}

}  // namespace spillway
