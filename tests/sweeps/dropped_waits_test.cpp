// The waits of real schedules are needed in fact, not only by proof: a run that lacks one gives
// other values, given slow copies and poison. The race check is bypassed: schedules go straight to
// the executor.
#include <cstdio>
#include <optional>

#include <gtest/gtest.h>

#include "harness/error.h"
#include "harness/race.h"
#include "tests/sweeps/support_runs.h"

namespace spillway {
namespace {

constexpr int64_t steps_run = 2;
constexpr double times_slower = 20;

// Where a wait stands: lanes[lane][step].waits[wait] of a segment.
struct Place {
  size_t segment = 0, lane = 0, step = 0, wait = 0;
};

std::vector<Place> waits_of(const Schedule& schedule) {
  std::vector<Place> places;
  for (size_t s = 0; s < schedule.segments.size(); ++s) {
    for (size_t lane = 0; lane < lane_count; ++lane) {
      const std::vector<LaneStep>& steps = schedule.segments[s].lanes[lane];
      for (size_t k = 0; k < steps.size(); ++k) {
        for (size_t w = 0; w < steps[k].waits.size(); ++w)
          places.push_back({s, lane, k, w});
      }
    }
  }
  return places;
}

Schedule without(Schedule schedule, const Place& place) {
  auto& waits = schedule.segments[place.segment].lanes[place.lane][place.step].waits;
  waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(place.wait));
  return schedule;
}

// What a run shows to whoever compares it with another.
struct Seen {
  std::vector<double> losses;
  std::string digest;
  int64_t stale_reloads = 0;
  std::string error;  // of a redzone
  friend bool operator==(const Seen&, const Seen&) = default;
};

struct Bench {
  Plan plan;
  std::shared_ptr<CpuMemory> memory = std::make_shared<CpuMemory>();
  std::vector<Trace> traces = {};  // of the last run

  Seen run(const Schedule& schedule) {
    const CpuOptions options{.threads = 1, .slow_copy = times_slower, .poison = true};
    CpuExecutor executor(schedule, plan, options, memory);
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
    seen.stale_reloads = executor.stale_reloads();
    return seen;
  }
};

// How often the wait at `place` held its lane up in the traces of a run.
int64_t times_held(const std::vector<Trace>& traces, const Schedule& schedule, const Place& place) {
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

std::string describe(const Schedule& schedule, const Place& place) {
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

void try_variant(const RunVariant& variant, Tally& tally) {
  SCOPED_TRACE(label(variant));
  const Prepared prepared = prepare(tiny_point(variant, 2, 64), {});
  Bench bench{.plan = prepared.plan};
  const Seen intact = bench.run(prepared.schedule);
  ASSERT_EQ(intact.error, "");
  ASSERT_EQ(intact.stale_reloads, 0);
  for (int again = 0; again < 3; ++again) ASSERT_EQ(bench.run(prepared.schedule), intact);
  const std::vector<Trace> intact_traces = bench.traces;
  for (const Place& place : waits_of(prepared.schedule)) {
    const Schedule damaged = without(prepared.schedule, place);
    EXPECT_TRUE(find_race(damaged, prepared.plan)) << describe(prepared.schedule, place);
    ++tally.waits;
    if (bench.run(damaged) != intact) {
      ++tally.noticed;
      continue;
    }
    std::printf("unnoticed: %s; %s; the intact run's lane stood here %ld times\n",
                label(variant).c_str(), describe(prepared.schedule, place).c_str(),
                static_cast<long>(times_held(intact_traces, prepared.schedule, place)));
    std::printf("   %s\n", find_race(damaged, prepared.plan)->message.c_str());
  }
}

TEST(DroppedWaits, ShowInValues) {
  Tally tally;
  for (const RunVariant& variant :
       every_schedule({"qkv_proj_offloaded", "decoder_layer_input=offload"})) {
    const Tally before = tally;
    try_variant(variant, tally);
    std::printf("%s: %zu of %zu\n", label(variant).c_str(), tally.noticed - before.noticed,
                tally.waits - before.waits);
  }
  std::printf("dropped waits noticed: %zu of %zu\n", tally.noticed, tally.waits);
  RecordProperty("waits", static_cast<int>(tally.waits));
  RecordProperty("noticed", static_cast<int>(tally.noticed));
  EXPECT_GE(tally.waits, 100u);
  EXPECT_GE(10 * tally.noticed, 8 * tally.waits);
}

}  // namespace
}  // namespace spillway
