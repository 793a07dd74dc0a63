// The race check against a brute-force one that shares no code with it, on intact and on damaged
// schedules, and the promise that no wait is superfluous.
#include "harness/race.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "harness/window.h"
#include "tests/support/brute_force.h"
#include "tests/support/tiny_program.h"

namespace spillway {
namespace {

struct Case {
  std::string name;
  int64_t layers = 0;
  Schedule schedule;
  Plan plan;
};

std::vector<Case> cases_of(int64_t layers, unsigned random_orders) {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, Schedule schedule) {
    const Plan plan = plan_memory(schedule);
    cases.push_back({name + ", as laid out", layers, schedule, plan});
    cases.push_back(
        {name + ", implied waits dropped", layers, drop_implied_waits(schedule, plan), plan});
  };
  for (const auto& [name, program] : tiny_programs(layers)) {
    verify(program, Stage::complete);
    add(name + " adjacent", adjacent_schedule(program));
    add(name + " overlapped", overlapped_schedule(program));
    for (unsigned seed = 0; seed < random_orders; ++seed) {
      add(name + " random " + std::to_string(seed), random_schedule(program, seed));
    }
  }
  return cases;
}

std::string message_of(const std::optional<Race>& race) { return race ? race->message : ""; }

// Every wait of a schedule, by reference.
template <class Visit>
void for_each_wait_list(Schedule& schedule, const Visit& visit) {
  for (SegmentSchedule& segment : schedule.segments) {
    for (auto& lane : segment.lanes) {
      for (LaneStep& step : lane) {
        if (!step.waits.empty()) visit(step.waits);
      }
    }
  }
}

size_t count_waits(Schedule schedule) {
  size_t count = 0;
  for_each_wait_list(schedule, [&](std::vector<Wait>& waits) { count += waits.size(); });
  return count;
}

Schedule without_wait(Schedule schedule, size_t number) {
  size_t at = 0;
  for_each_wait_list(schedule, [&](std::vector<Wait>& waits) {
    for (size_t w = 0; w < waits.size(); ++w) {
      if (at++ != number) continue;
      waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
      return;
    }
  });
  return schedule;
}

TEST(Race, IntactSchedulesHaveNone) {
  for (const Case& c : cases_of(5, 6)) {
    EXPECT_EQ(message_of(find_race(c.schedule, c.plan)), "") << c.name;
    EXPECT_EQ(brute_force_race(c.schedule, c.plan), "") << c.name;
  }
}

TEST(Race, EveryWaitThatIsLeftIsNeeded) {
  for (const Case& c : cases_of(5, 6)) {
    const Schedule needed = drop_implied_waits(c.schedule, c.plan);
    EXPECT_EQ(message_of(find_race(needed, c.plan)), "") << c.name;
    for (size_t k = 0; k < count_waits(needed); ++k) {
      const Schedule damaged = without_wait(needed, k);
      EXPECT_TRUE(find_race(damaged, c.plan)) << c.name << ", wait " << k;
      EXPECT_NE(brute_force_race(damaged, c.plan), "") << c.name << ", wait " << k;
    }
  }
}

// In their order, each is tried by itself: out if the check passes without it.
TEST(Race, DropsWhatTrialAndErrorWouldDrop) {
  for (const Case& c : cases_of(5, 3)) {
    Schedule tried = c.schedule;
    for (size_t k = 0; k < count_waits(tried);) {
      Schedule less = without_wait(tried, k);
      if (find_race(less, c.plan))
        ++k;
      else
        tried = std::move(less);
    }
    EXPECT_EQ(dump(drop_implied_waits(c.schedule, c.plan)), dump(tried)) << c.name;
  }
}

TEST(Race, DroppingAndProvingAtOnceSaysTheSame) {
  for (const Case& c : cases_of(5, 2)) {
    const Proven proven = drop_and_prove(c.schedule, c.plan);
    EXPECT_EQ(message_of(proven.race), "") << c.name;
    EXPECT_EQ(dump(proven.schedule), dump(drop_implied_waits(c.schedule, c.plan))) << c.name;
    if (count_waits(proven.schedule) == 0) continue;
    const Proven damaged = drop_and_prove(without_wait(proven.schedule, 0), c.plan);
    EXPECT_EQ(message_of(damaged.race),
              message_of(find_race(without_wait(proven.schedule, 0), c.plan)));
    EXPECT_NE(message_of(damaged.race), "") << c.name;
  }
}

TEST(Race, DropsWaitsThatFifoOrderImplies) {
  // Both copies of a body start side by side after their producers and are waited for side by side:
  // one start and one done order both.
  const Schedule schedule = overlapped_schedule(offloaded_stack(5));
  const Schedule needed = drop_implied_waits(schedule, plan_memory(schedule));
  const auto& backward = needed.segments[3];
  const auto& h2d = backward.lanes[static_cast<size_t>(Lane::h2d)];
  ASSERT_EQ(h2d.size(), 2u);
  EXPECT_EQ(h2d[0].waits.size() + h2d[1].waits.size(), 1u);
  size_t dones = 0;
  for (const LaneStep& step : backward.lanes[static_cast<size_t>(Lane::compute)]) {
    dones += step.waits.size();
  }
  EXPECT_EQ(dones, 1u);
}

// One random damage; says what was done.
std::string damage(Case& c, std::mt19937& random) {
  const auto pick = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  const size_t waits = count_waits(c.schedule);
  const size_t kind = pick(3);
  if (kind == 0 && waits > 0) {
    const size_t k = pick(waits);
    c.schedule = without_wait(c.schedule, k);
    return "wait " + std::to_string(k) + " dropped";
  }
  if (kind == 1) {
    const size_t s = pick(c.schedule.segments.size());
    auto& lane = c.schedule.segments[s].lanes[pick(lane_count)];
    if (lane.size() >= 2) {
      const size_t a = pick(lane.size() - 1), b = a + 1 + pick(lane.size() - a - 1);
      std::swap(lane[a], lane[b]);
      return "steps " + std::to_string(a) + " and " + std::to_string(b) + " of segment " +
             std::to_string(s) + " swapped";
    }
  }
  const size_t tensor = pick(c.plan.offset.size());
  if (c.plan.offset[tensor] < 0) return "nothing";
  const int64_t shift = (static_cast<int64_t>(pick(33)) - 16) * 32;  // half slices too
  c.plan.offset[tensor] += shift;
  // -1 says "no place" in a plan; no shift from a multiple of 64 gives it.
  return c.schedule.program.tensors[tensor].name + " shifted by " + std::to_string(shift);
}

// A slice that only skipped iterations touch counts as in use for as long as its tensor lives,
// which may refuse a plan that is harmless by luck of timing, and never accepts one that is not.
bool is_caution(const std::string& found) { return found.find("destroys") != std::string::npos; }

void expect_agreement(const std::vector<Case>& intact, unsigned mutations, unsigned seed) {
  std::mt19937 random(seed);
  size_t refused = 0;
  for (unsigned k = 0; k < mutations; ++k) {
    Case c = intact[k % intact.size()];
    const std::string what = damage(c, random);
    const std::string found = message_of(find_race(c.schedule, c.plan));
    const std::string expected = brute_force_race(c.schedule, c.plan);
    const bool cautious = c.layers > 5 && is_caution(found);
    ASSERT_TRUE(found.empty() == expected.empty() || cautious)
        << c.name << ", " << what << "\nfound: " << found << "\nbrute force: " << expected;
    refused += !found.empty();
  }
  // Damage does damage, and not always: both answers are exercised.
  EXPECT_GT(refused, mutations / 3);
  EXPECT_LT(refused, mutations);
}

TEST(Race, AgreesWithBruteForceOnAThousandMutations) { expect_agreement(cases_of(5, 2), 1000, 1); }

// With fourteen layers iterations are left out; brute force still looks at all of them.
TEST(Race, AgreesWithBruteForceWhereIterationsAreSkipped) {
  const Program program = kept_stack(14);
  const Window window = window_of(program, program.segments[1]);
  ASSERT_LT(window.head, window.tail);
  expect_agreement(cases_of(14, 0), 200, 2);
}

TEST(Race, NamesBothAccesses) {
  const Schedule schedule = adjacent_schedule(offloaded_stack(5));
  const Plan plan = plan_memory(schedule);
  Schedule damaged = schedule;
  damaged.segments[1].lanes[static_cast<size_t>(Lane::d2h)][0].waits.clear();
  const std::string message = message_of(find_race(damaged, plan));
  for (const char* part :
       {"\"q\"", "to.q.host", "segment \"forward\"", "lane d2h", "lane compute"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
}

TEST(Race, DeadlockIsAViolation) {
  Schedule schedule = adjacent_schedule(offloaded_stack(5));
  const Plan plan = plan_memory(schedule);
  // The first compute step of the forward body waits for the copy of its own result.
  schedule.segments[1].lanes[static_cast<size_t>(Lane::compute)][0].waits = {{Lane::d2h, 0}};
  const std::string message = message_of(find_race(schedule, plan));
  EXPECT_NE(message.find("deadlock"), std::string::npos) << message;
  EXPECT_EQ(brute_force_race(schedule, plan), "deadlock");
}

TEST(Race, ProvesLifetimes) {
  // Released one step too early: the bytes are gone before the last reader.
  Schedule schedule = adjacent_schedule(kept_stack(5));
  const Plan plan = plan_memory(schedule);
  auto& compute = schedule.segments[1].lanes[static_cast<size_t>(Lane::compute)];
  for (size_t k = 1; k < compute.size(); ++k) {
    if (compute[k].release.empty()) continue;
    std::swap(compute[k].release, compute[k - 1].release);
    break;
  }
  EXPECT_NE(message_of(find_race(schedule, plan)).find("does not find its value"),
            std::string::npos);
}

TEST(Race, WindowKeepsRingsInPhase) {
  TinyBuilder builder("rings");
  const TensorId three = builder.ring("three", 3), two = builder.ring("two", 2);
  builder.segment("body", 100);
  builder.add(slice(three, 1, 0), slice(two, 1, 0), slice(three, 1, 1));
  const Program& program = builder.program();
  const Window window = window_of(program, program.segments[0]);
  EXPECT_EQ(window.head, 7);  // six iterations until both repeat, and one
  EXPECT_EQ((window.tail - window.head) % 6, 0);
  EXPECT_GE(100 - window.tail, 7);
  EXPECT_LT(100 - window.tail, 13);
}

}  // namespace
}  // namespace spillway
