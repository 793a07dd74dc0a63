// Schedules with one wait less, on the real streams: as on the CPU, 8 in 10 must show
// (tests/sweeps/dropped_waits_test.cpp). What a wait guards may happen to be in time all the same.
#include <algorithm>
#include <random>

#include "harness/error.h"
#include "tests/gpu/variant.h"
#include "tests/sweeps/support_runs.h"

namespace spillway {
namespace {

constexpr double must_show = 0.8;

// Copies that take long come too late, those that take no time too early; graphs order by waits
// alone, where the host no longer issues one thing before the other.
const CudaOptions race_modes[] = {{.slow_copy = 200, .poison = true},
                                  {.poison = true},
                                  {.slow_copy = 200, .poison = true, .graphs = true}};

std::string name_of_wait(const Schedule& schedule, const WaitPlace& place) {
  const LaneStep& step = schedule.segments[place.segment].lanes[place.lane][place.step];
  const Wait& wait = step.waits[place.wait];
  const std::vector<Op>& ops = schedule.program.segments[place.segment].ops;
  return text(name_of(static_cast<Lane>(place.lane)), " ", ops[static_cast<size_t>(step.op)].name,
              " waits for ", name_of(wait.on), " step ", wait.step);
}

// Each mode once intact; a wait less is seen when any of them shows something else.
class Intact {
 public:
  Intact(const Subject& subject, const Point& point) : subject_(subject), point_(subject, point) {
    for (const CudaOptions& mode : race_modes)
      shown_.push_back(show(subject_, point_, point_.schedule, mode, steps));
  }
  bool all_alike() const {
    return std::all_of(shown_.begin(), shown_.end(), [](const Shown& shown) {
      return shown.error.empty() && shown.stale_slots == 0;
    });
  }
  bool shows(const WaitPlace& place) const {
    const Schedule lacking = without(point_.schedule, place);
    for (size_t i = 0; i < shown_.size(); ++i)
      if (show(subject_, point_, lacking, race_modes[i], steps) != shown_[i]) return true;
    return false;
  }
  const Schedule& schedule() const { return point_.schedule; }

 private:
  static constexpr int64_t steps = 2;
  const Subject& subject_;
  SubjectPoint point_;
  std::vector<Shown> shown_;
};

}  // namespace

Finding check_races(const Subject& subject, const Effort& effort) {
  Finding finding;
  int64_t tried = 0, seen = 0, left_out = 0;
  nlohmann::json unseen = nlohmann::json::array();
  for (const RunVariant& variant : {RunVariant{"qkv_proj_offloaded", false},
                                    {"qkv_proj_offloaded", true},
                                    {"qkv_proj_offloaded", true, true},
                                    {"decoder_layer_input=offload", true, true, true}}) {
    const Intact intact(subject, tiny_point(variant, 2, 64));
    if (!intact.all_alike()) finding.fail(label(variant) + ": the intact schedule fails");
    std::vector<WaitPlace> places = places_of_waits(intact.schedule());
    std::shuffle(places.begin(), places.end(), std::mt19937(5));  // a few stand for all
    for (const WaitPlace& place : places) {
      if (effort.over()) {
        ++left_out;
        continue;
      }
      ++tried;
      const bool shows = intact.shows(place);
      seen += shows;
      if (!shows) unseen.push_back(label(variant) + ": " + name_of_wait(intact.schedule(), place));
    }
  }
  finding.figures = {
      {"dropped", tried}, {"seen", seen}, {"unseen", unseen}, {"left_out_for_time", left_out}};
  if (tried == 0) finding.fail("no wait was dropped");
  if (static_cast<double>(seen) < must_show * static_cast<double>(tried))
    finding.fail(text(seen, " of ", tried, " dropped waits showed, expected 8 in 10"));
  return finding;
}

}  // namespace spillway
