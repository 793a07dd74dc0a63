// Random programs under random schedules: no race, no byte twice, no dependency broken. Seeds are
// fixed; a failure names its own.
#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/plan.h"
#include "harness/race.h"
#include "offload/latency.h"
#include "offload/scheduler.h"
#include "tests/support/brute_force.h"
#include "tests/support/random_program.h"

namespace spillway {
namespace {

// A release build's share of 10,000; others check the same in a small part of the time.
#ifdef NDEBUG
constexpr int shards = 10, programs_a_shard = 1000;
#else
constexpr int shards = 10, programs_a_shard = 50;
#endif
constexpr int brute_force_every = 10;

int below(std::mt19937& random, int most) {
  return static_cast<int>(random() % static_cast<unsigned>(most));
}
bool chance(std::mt19937& random, int percent) { return below(random, 100) < percent; }

OpHint random_hint(std::mt19937& random) {
  OpHint hint;
  for (bool* flag :
       {&hint.force_early, &hint.force_delay, &hint.force_delay_after_target, &hint.non_extendable,
        &hint.serial, &hint.window, &hint.selective, &hint.valuable})
    *flag = chance(random, 30);
  hint.force_delay_priority = below(random, 3);
  if (chance(random, 50)) hint.preference = below(random, 3);
  return hint;
}

// Latencies of one of the three models over seconds drawn for each op, 0 among them.
OpSeconds random_latencies(const Program& program, std::mt19937& random) {
  std::map<std::string, double> profile, drawn;
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops) {
      drawn[op.name] = below(random, 5) * 1e-3;
      if (chance(random, 70)) profile[segment.name + "." + op.name] = below(random, 5) * 1e-3;
    }
  OpSeconds size = [drawn](const Program&, const Op& op) { return drawn.at(op.name); };
  const int model = below(random, 3);
  if (model == 0) return size;
  return model == 1 ? xla_seconds(size) : measured_seconds(profile, size);
}

SchedulerOptions random_options(const Program& program, std::mt19937& random) {
  SchedulerOptions options;
  options.lhs = chance(random, 80);
  if (chance(random, 50)) options.collectives_without_lhs = CollectivesWithoutLhs::adjacent;
  for (const LhsRuleInfo& rule : lhs_rule_table())
    if (chance(random, 20)) options.rules[rule.name] = !rule.on_by_default;
  options.limits = {below(random, 4), below(random, 4)};
  options.memory_limit = chance(random, 50) ? 64 * (1 + below(random, 12)) : 0;
  options.seconds = random_latencies(program, random);
  if (chance(random, 30))
    for (const Segment& segment : program.segments)
      for (const Op& op : segment.ops)
        if (chance(random, 40)) options.hints[op.name] = random_hint(random);
  return options;
}

// Slices of a tensor that an operand means in one iteration.
std::vector<int64_t> slices_of(const Program& program, const Operand& operand, int64_t iteration) {
  const int64_t count = program.at(operand.tensor).slices;
  std::vector<int64_t> slices;
  for (int64_t k = 0; k < count; ++k)
    if (operand.index.whole ||
        (operand.index.stride * iteration + operand.index.offset) % count == k)
      slices.push_back(k);
  return slices;
}

bool conflict(const Program& program, const Op& a, const Op& b, int64_t iteration) {
  const auto meet = [&](const std::vector<Operand>& of_a, const std::vector<Operand>& of_b) {
    for (const Operand& x : of_a)
      for (const Operand& y : of_b) {
        if (x.tensor != y.tensor) continue;
        const std::vector<int64_t> other = slices_of(program, y, iteration);
        for (const int64_t slice : slices_of(program, x, iteration))
          if (std::find(other.begin(), other.end(), slice) != other.end()) return true;
      }
    return false;
  };
  return meet(a.outputs, b.inputs) || meet(a.inputs, b.outputs) || meet(a.outputs, b.outputs);
}

// The first two ops of a body that stand against their dependency, or nothing: of two that touch the
// same slice in some iteration, one writing it, the earlier must be over before the later begins.
std::string broken_dependency(const Program& program, size_t s, const BodyOrder& order) {
  const Segment& segment = program.segments[s];
  std::vector<size_t> begin(segment.ops.size()), end(segment.ops.size());
  for (size_t k = 0; k < order.size(); ++k) {
    if (order[k].kind != StepKind::done) begin[index_of(order[k].op)] = k;
    if (order[k].kind != StepKind::start) end[index_of(order[k].op)] = k;
  }
  for (size_t a = 0; a < segment.ops.size(); ++a)
    for (size_t b = a + 1; b < segment.ops.size(); ++b)
      for (int64_t i = 0; end[a] >= begin[b] && i < segment.trips; ++i)
        if (conflict(program, segment.ops[a], segment.ops[b], i))
          return segment.ops[a].name + " before " + segment.ops[b].name;
  return {};
}

// Walks the compute lane of two steps, on which alone tensors come and go: no two live tensors share a
// byte, and none lies beyond the planned peak.
std::string memory_fault(const Schedule& schedule, const Plan& plan) {
  std::vector<TensorId> live;
  const auto add = [&](TensorId id) -> std::string {
    const Tensor& tensor = schedule.program.at(id);
    const int64_t begin = plan.offset[index_of(id)], end = begin + tensor.bytes();
    if (tensor.space == Space::device && (begin < 0 || end > plan.device_bytes))
      return tensor.name + " lies beyond the planned peak";
    for (const TensorId other : live) {
      const Tensor& there = schedule.program.at(other);
      const int64_t at = plan.offset[index_of(other)];
      if (there.space == tensor.space && at < end && begin < at + there.bytes())
        return tensor.name + " shares bytes with " + there.name;
    }
    live.push_back(id);
    return {};
  };
  const auto remove = [&](TensorId id) { live.erase(std::find(live.begin(), live.end(), id)); };
  const auto add_all = [&](const std::vector<TensorId>& ids) {
    for (const TensorId id : ids)
      if (const std::string fault = add(id); !fault.empty()) return fault;
    return std::string();
  };
  for (size_t id = 0; id < schedule.program.tensors.size(); ++id)
    if (schedule.program.tensors[id].extent == Extent::persistent && plan.offset[id] >= 0)
      if (const std::string fault = add(static_cast<TensorId>(id)); !fault.empty()) return fault;
  for (size_t s = 0; s < schedule.segments.size(); ++s) {
    const SegmentSchedule& segment = schedule.segments[s];
    if (const std::string fault = add_all(segment.enter_allocate); !fault.empty()) return fault;
    for (int64_t i = 0; i < schedule.program.segments[s].trips; ++i)
      for (const LaneStep& step : segment.lanes[0]) {
        if (const std::string fault = add_all(step.allocate); !fault.empty()) return fault;
        std::for_each(step.release.begin(), step.release.end(), remove);
      }
    std::for_each(segment.exit_release.begin(), segment.exit_release.end(), remove);
  }
  return {};
}

class RandomSchedules : public testing::TestWithParam<int> {};

TEST_P(RandomSchedules, KeepTheirPromises) {
  for (int k = 0; k < programs_a_shard; ++k) {
    const int seed = GetParam() * programs_a_shard + k;
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(static_cast<unsigned>(seed));
    const Program program = merge_straight_line(random_program(random));
    verify(program, Stage::complete);
    OrderedProgram ordered = order_bodies(program, random_options(program, random));
    for (size_t s = 0; s < ordered.program.segments.size(); ++s)
      ASSERT_EQ(broken_dependency(ordered.program, s, ordered.orders[s]), "");
    constexpr Streams modes[] = {Streams::position, Streams::precise, Streams::xla};
    const Streams streams = modes[below(random, 3)];
    Schedule schedule = lay_out(std::move(ordered.program), ordered.orders, streams);
    const Plan plan = plan_memory(schedule);
    ASSERT_EQ(memory_fault(schedule, plan), "");
    if (streams != Streams::xla) schedule = drop_implied_waits(std::move(schedule), plan);
    const std::optional<Race> race = find_race(schedule, plan);
    ASSERT_FALSE(race) << name_of(streams) << ": " << race->message;
    if (k % brute_force_every > 0) continue;
    ASSERT_EQ(brute_force_race(schedule, plan), "");
  }
  RecordProperty("schedules", programs_a_shard);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedules, testing::Range(0, shards));

}  // namespace
}  // namespace spillway
