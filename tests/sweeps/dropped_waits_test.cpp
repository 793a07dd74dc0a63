// The waits of real schedules are needed in fact, not only by proof: a run that lacks one gives
// other values, given slow copies and poison. The race check is bypassed: schedules go straight to
// the executor.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>

#include "harness/error.h"
#include "harness/race.h"
#include "tests/support/wait_places.h"
#include "tests/sweeps/support_runs.h"

namespace spillway {
namespace {

constexpr int64_t steps_run = 2;
// Long copies show who relies on them too early, short ones who feeds them too late.
constexpr double times_slower[] = {20, 1.01, 100};

// What a run shows to whoever compares it with another.
struct Seen {
  std::vector<double> losses;
  std::string digest;
  int64_t stale_slots = 0;
  std::string error;  // of a redzone
  friend bool operator==(const Seen&, const Seen&) = default;
};

struct Bench {
  const Prepared& prepared;
  std::shared_ptr<CpuMemory> memory = std::make_shared<CpuMemory>();
  std::vector<Trace> traces = {};  // of the last run

  Seen run(const Schedule& schedule, double slow_copy) {
    const CpuOptions options{.threads = 1, .slow_copy = slow_copy, .poison = true};
    CpuExecutor executor(schedule, prepared.plan, options, memory);
    Seen seen;
    traces.clear();
    try {
      for (int64_t step = 0; step < steps_run; ++step) {
        traces.push_back(executor.step());
        seen.losses.push_back(traces.back().loss);
      }
    } catch (const RunError& error) {
      seen.error = error.what();
    }
    seen.digest = executor.gradient_digest();
    seen.stale_slots = executor.stale_slots();
    return seen;
  }
};

// How often the wait at `place` held its lane up in the traces of a run.
int64_t times_held(const std::vector<Trace>& traces, const Schedule& schedule,
                   const WaitPlace& place) {
  const SegmentSchedule& segment = schedule.segments[place.segment];
  const Wait& wait = segment.lanes[place.lane][place.step].waits[place.wait];
  const int op = segment.lanes[static_cast<size_t>(wait.on)][static_cast<size_t>(wait.step)].op;
  int64_t count = 0;
  for (const Trace& trace : traces) {
    for (const Span& span : trace.spans) {
      count += span.kind == SpanKind::wait && static_cast<size_t>(span.lane) == place.lane &&
               span.on == wait.on && static_cast<size_t>(span.segment) == place.segment &&
               span.op == op;
    }
  }
  return count;
}

std::string describe(const Schedule& schedule, const WaitPlace& place) {
  const SegmentSchedule& segment = schedule.segments[place.segment];
  const Segment& body = schedule.program.segments[place.segment];
  const LaneStep& step = segment.lanes[place.lane][place.step];
  const Wait& wait = step.waits[place.wait];
  const LaneStep& other =
      segment.lanes[static_cast<size_t>(wait.on)][static_cast<size_t>(wait.step)];
  return text(body.name, ": lane ", name_of(static_cast<Lane>(place.lane)), ", ",
              body.ops[static_cast<size_t>(step.op)].name, " waits for lane ", name_of(wait.on),
              ", ", body.ops[static_cast<size_t>(other.op)].name);
}

struct Tally {
  size_t waits = 0, noticed = 0;
};

// The intact run, which no repetition and no slowness may change. Leaves traces of a slow one.
Seen intact_run(Bench& bench) {
  const Schedule& schedule = bench.prepared.schedule;
  const Seen intact = bench.run(schedule, 1);
  EXPECT_EQ(intact.error, "");
  EXPECT_EQ(intact.stale_slots, 0);
  for (int repetition = 0; repetition < 2; ++repetition) {
    for (const double slow : times_slower)
      EXPECT_EQ(bench.run(schedule, slow), intact);
  }
  bench.run(schedule, times_slower[0]);  // for its traces
  return intact;
}

bool noticed(Bench& bench, const Schedule& damaged, const Seen& intact) {
  return std::any_of(std::begin(times_slower), std::end(times_slower),
                     [&](double slow) { return bench.run(damaged, slow) != intact; });
}

// A wait nobody noticed, and why: what its lack left unordered kept its order by itself.
void report_unnoticed(const Bench& bench, const std::vector<Trace>& intact, const WaitPlace& place,
                      const Race& race) {
  const Schedule& schedule = bench.prepared.schedule;
  const int64_t held = times_held(intact, schedule, place);
  const std::string reason = held == 0
                                 ? "the lane never has to stand here, it comes later by itself"
                                 : text("the lane stands here ", held,
                                        " times, yet what is ordered so comes in order anyway");
  std::printf("unnoticed: %s\n  reason: %s\n  %s\n", describe(schedule, place).c_str(),
              reason.c_str(), race.message.c_str());
}

Tally try_variant(const RunVariant& variant) {
  SCOPED_TRACE(label(variant));
  const Prepared prepared = prepare(tiny_point(variant, 2, 64), {});
  Bench bench{prepared};
  const Seen intact = intact_run(bench);
  const std::vector<Trace> intact_traces = bench.traces;
  Tally tally;
  for (const WaitPlace& place : places_of_waits(prepared.schedule)) {
    const Schedule damaged = without(prepared.schedule, place);
    const std::optional<Race> race = find_race(damaged, prepared.plan);
    EXPECT_TRUE(race) << "superfluous: " << describe(prepared.schedule, place);
    const bool seen = noticed(bench, damaged, intact);
    tally.waits += 1;
    tally.noticed += seen ? 1 : 0;
    if (!seen && race) report_unnoticed(bench, intact_traces, place, *race);
  }
  std::printf("%s: %zu of %zu dropped waits noticed\n", label(variant).c_str(), tally.noticed,
              tally.waits);
  return tally;
}

// Further than XLA rotates, or with a tail that stays: a value has more slots, and where a slot is
// taken again only three iterations later nobody comes early enough to spoil it. Those waits are
// listed with the others, and the race check must refuse each; how many show is not asked.
bool has_more_slots(const RunVariant& variant) {
  return variant.depth > 1 || variant.unroll > 1 || variant.resident_tail > 0;
}

void expect_noticed(const std::string& policy, size_t at_least) {
  Tally all;
  for (const RunVariant& variant : every_schedule({policy})) {
    const Tally tally = try_variant(variant);
    if (has_more_slots(variant)) continue;
    all.waits += tally.waits;
    all.noticed += tally.noticed;
  }
  std::printf("%s: %zu of %zu dropped waits noticed\n", policy.c_str(), all.noticed, all.waits);
  testing::Test::RecordProperty("waits", static_cast<int>(all.waits));
  testing::Test::RecordProperty("noticed", static_cast<int>(all.noticed));
  EXPECT_GE(all.waits, at_least);
  EXPECT_GE(10 * all.noticed, 8 * all.waits);
}

// What a missing wait changes depends on who is faster.
// Queries, keys and values: several copies in a row on a lane.
TEST(DroppedWaits, OfQkvOffloadShowInValues) {
  if (!timed_tests()) GTEST_SKIP() << "depends on timing: scripts/acceptance.sh 2 --only race";
  expect_noticed("qkv_proj_offloaded", 60);
}

// The layer's input: a carry between iterations, one copy a layer.
TEST(DroppedWaits, OfLayerInputOffloadShowInValues) {
  if (!timed_tests()) GTEST_SKIP() << "depends on timing: scripts/acceptance.sh 2 --only race";
  expect_noticed("decoder_layer_input=offload", 30);
}

}  // namespace
}  // namespace spillway
