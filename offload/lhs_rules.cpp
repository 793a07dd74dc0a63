// XLA's comparison rules, in XLA's order (ReadySetLt::AIsBetterThanB; mechanisms.md 3.6). "Better"
// means nearer the end of the body, since scheduling runs from the end: what wins stands late in
// the program, what loses early.
#include <algorithm>
#include <cmath>

#include "offload/lhs.h"

namespace spillway {

namespace {

using State = LhsState;

int prefer(bool a, bool b) { return static_cast<int>(a) - static_cast<int>(b); }
template <class T>
int prefer_smaller(T a, T b) {
  return prefer(a < b, b < a);
}

// Of two ready nodes, whatever `asked` holds for loses.
template <class Ask>
int delay(const State& state, int a, int b, const Ask& asked) {
  return prefer(!asked(state.node(a)), !asked(state.node(b)));
}

// What forces an instruction forces a start, not its done.
int force_early(const State& state, int a, int b) {
  return delay(state, a, b, [](const LhsNode& n) { return !n.is_done() && n.hint->force_early; });
}

int force_delay(const State& state, int a, int b) {
  return delay(state, a, b, [](const LhsNode& n) { return !n.is_done() && n.hint->force_delay; });
}

int force_delay_priority(const State& state, int a, int b) {
  const auto priority = [&](int i) {
    return state.node(i).is_done() ? 0 : state.node(i).hint->force_delay_priority;
  };
  return prefer_smaller(priority(a), priority(b));
}

int preference(const State& state, int a, int b) {
  const auto &of_a = state.node(a).hint->preference, &of_b = state.node(b).hint->preference;
  return of_a && of_b ? prefer_smaller(*of_b, *of_a) : 0;
}

// The memory rules sleep below half of the limit, and never refuse.
int decrease_memory_over_limit(const State& state, int a, int b) {
  if (!state.over_half_of_limit || state.memory.usage() < state.memory_limit) return 0;
  return prefer_smaller(state.change(a).increase, state.change(b).increase);
}

int memory_peak_over_limit(const State& state, int a, int b) {
  if (!state.over_half_of_limit) return 0;
  return prefer(state.change(a).peak <= state.memory_limit,
                state.change(b).peak <= state.memory_limit);
}

// While a copy on the device is open, what does not compete with it for memory runs beside it.
int selective_memcpy_overlap(const State& state, int a, int b) {
  if (state.open_windows == 0) return 0;
  const auto beside = [](const LhsNode& n) {
    return n.item.kind == StepKind::run && n.compute_bound;
  };
  return prefer(beside(state.node(a)), beside(state.node(b)));
}

bool free_start(const State& state, const LhsNode& node) {
  return node.is_start() && !state.frees_backed_up_resource(node);
}

// In XLA this pair acts only where more than one collective may be open.
int delay_start_for_compute(const State& state, int a, int b) {
  if (!state.settings.delay_async_starts) return 0;
  return delay(state, a, b, [&](const LhsNode& n) { return free_start(state, n); });
}

int delay_start_for_depth(const State& state, int a, int b) {
  if (!state.settings.delay_async_starts) return 0;
  if (!free_start(state, state.node(a)) || !free_start(state, state.node(b))) return 0;
  return prefer_smaller(state.node(b).depth, state.node(a).depth);
}

double stall(const State& state, int i) { return std::max(state.node(i).ready - state.now, 0.0); }

// A write to the host loses to anything else: it starts as early as its producer allows. With
// `stall_over_move_to_host` it does not lose to what would stall the device: its producers can only
// be placed after it, so waiting for a collective instead would leave them with nothing to hide
// that collective.
int delay_move_to_host_start(const State& state, int a, int b) {
  if (state.settings.delay_async_starts) return 0;
  if (state.settings.stall_over_move_to_host &&
      (stall(state, a) > plain_latency) != (stall(state, b) > plain_latency))
    return 0;
  return delay(state, a, b, [](const LhsNode& n) { return n.is_start() && n.to_host; });
}

int force_delay_after_target(const State& state, int a, int b) {
  return delay(state, a, b,
               [](const LhsNode& n) { return !n.is_done() && n.hint->force_delay_after_target; });
}

int schedule_by_structure(const State& state, int a, int b) {
  const auto runs = [&](int i) { return state.node(i).item.kind == StepKind::run; };
  if (!runs(a) || !runs(b)) return 0;
  return prefer_smaller(state.node(b).rank, state.node(a).rank);
}

// A wait is as late as the resources allow.
int schedule_done(const State& state, int a, int b) {
  return prefer(state.node(a).is_done(), state.node(b).is_done());
}

int delay_done_of_force_delayed(const State& state, int a, int b) {
  return delay(state, a, b, [](const LhsNode& n) { return n.is_done() && n.hint->force_delay; });
}

// The start that keeps its resource longest beyond its time.
int release_non_extendable(const State& state, int a, int b) {
  const auto overdue = [&](const LhsNode& n) {
    return n.is_start() && n.hint->non_extendable ? std::max(state.now - n.ready, 0.0) : 0;
  };
  return prefer_smaller(overdue(state.node(b)), overdue(state.node(a)));
}

// XLA asks this of collective permutes; these programs have other collectives only.
int schedule_start(const State& state, int a, int b) {
  const auto due = [&](int i) {
    const LhsNode& n = state.node(i);
    return n.is_start() && n.resource == LhsResource::collective && n.ready <= state.now;
  };
  if (due(a) != due(b)) return prefer(due(a), due(b));
  return due(a) ? prefer_smaller(state.node(b).ready, state.node(a).ready) : 0;
}

// What nothing asynchronous comes before can stand at the top of the body.
int start_at_zero_depth(const State& state, int a, int b) {
  return delay(state, a, b,
               [&](const LhsNode& n) { return n.async_depth == 0 && free_start(state, n); });
}

// A start whose latency is not yet covered loses to ready compute: this stretches start and done.
int less_stall(const State& state, int a, int b) {
  return prefer_smaller(stall(state, a), stall(state, b));
}

int less_serial_conflict(const State& state, int a, int b) {
  const auto conflicts = [&](const LhsNode& n) {
    return n.is_done() && n.hint->serial ? state.open_serial : 0;
  };
  return prefer_smaller(conflicts(state.node(a)), conflicts(state.node(b)));
}

int free_backed_up_resource(const State& state, int a, int b) {
  return prefer(state.frees_backed_up_resource(state.node(a)),
                state.frees_backed_up_resource(state.node(b)));
}

int async_depth(const State& state, int a, int b) {
  return prefer_smaller(state.node(b).async_depth, state.node(a).async_depth);
}

// Compute that fills the time until the next node is due, no more and no less.
int avoid_waste(const State& state, int a, int b) {
  if (state.next_due == 0) return 0;
  const auto waste = [&](int i) {
    return std::abs(state.next_due - state.now - state.node(i).cost);
  };
  return prefer(!state.node(a).is_start() && waste(a) < waste(b),
                !state.node(b).is_start() && waste(b) < waste(a));
}

int unlock_done(const State& state, int a, int b) {
  return prefer(state.node(a).after_done, state.node(b).after_done);
}

// Before a selective op opens, what is worth running beside it is held back. XLA looks at nodes a
// number of hops away, by default none: another ready node is such an op's done.
int not_valuable_for_selective_overlap(const State& state, int a, int b) {
  if (state.open_selective > 0) return 0;
  return delay(state, a, b, [&](const LhsNode& n) {
    const int own = n.is_done() && n.hint->selective ? 1 : 0;
    return n.hint->valuable && state.selective_dones > own;
  });
}

int creates_more_ready_nodes(const State& state, int a, int b) {
  const auto unlocks = [&](int i) {
    const std::span<const int> before = state.predecessors[i];
    return std::count_if(before.begin(), before.end(),
                         [&](int from) { return state.node(from).unscheduled == 1; });
  };
  return prefer_smaller(unlocks(b), unlocks(a));
}

// XLA asks only who decreases memory at all; with `decrease_memory_bytes`, by how much.
int decrease_memory(const State& state, int a, int b) {
  if (!state.over_half_of_limit) return 0;
  const int64_t of_a = state.change(a).increase, of_b = state.change(b).increase;
  return state.settings.decrease_memory_bytes ? prefer_smaller(of_a, of_b)
                                              : prefer(of_a < 0, of_b < 0);
}

int original_order(const State& state, int a, int b) {
  return prefer_smaller(state.node(b).rank, state.node(a).rank);
}

}  // namespace

const std::vector<LhsRule>& lhs_rules() {
  static const std::vector<LhsRule> rules = {
      {{"kForceEarly", true, "force_early", "an op forced early stands early"}, force_early},
      {{"kForceDelay", true, "force_delay", "an op forced to wait, bottom-up, stands early"},
       force_delay},
      {{"kForceDelayPriority", true, "force_delay_priority", "the higher priority stands earlier"},
       force_delay_priority},
      {{"kPreference", true, "preference", "of two with a preference the higher stands later"},
       preference},
      {{"kDecreaseMemoryOverLimit", true, "", "over the limit: the smaller increase later"},
       decrease_memory_over_limit,
       LhsFacts::pressure},
      {{"kMemoryPeakOverLimit", true, "", "over half of the limit: what stays under it later"},
       memory_peak_over_limit,
       LhsFacts::pressure},
      {{"kSelectiveMemcpyOverlap", false, "window",
        "compute-bound ops beside an async copy on the device"},
       selective_memcpy_overlap},
      {{"kDelayAsyncStartForCompute", false, "",
        "any start early, where more than one collective may be open; with the next, instead of "
        "kDelayMoveToHostAsyncStart"},
       delay_start_for_compute,
       LhsFacts::start},
      {{"kDelayAsyncStartForDepth", false, "", "of two such starts the deeper later"},
       delay_start_for_depth,
       LhsFacts::start},
      {{"kDelayMoveToHostAsyncStart", true, "", "a write to the host starts early"},
       delay_move_to_host_start,
       LhsFacts::host_write},
      {{"kForceDelayAfterTarget", true, "force_delay_after_target",
        "an op forced to wait stands early, after the rules above"},
       force_delay_after_target},
      {{"kScheduleByStructure", false, "", "compute ops keep their order without latency hiding"},
       schedule_by_structure},
      {{"kScheduleDone", true, "", "a wait as late as resources allow"},
       schedule_done,
       LhsFacts::done},
      {{"kDelayDoneOfForceDelayedAsyncStart", true, "force_delay",
        "of two waits that of a start forced to wait earlier"},
       delay_done_of_force_delayed,
       LhsFacts::done},
      {{"kReleaseNonextendable", true, "non_extendable", "an overdue start later"},
       release_non_extendable,
       LhsFacts::start},
      {{"kScheduleStart", false, "", "a collective's start that is due later"},
       schedule_start,
       LhsFacts::start},
      {{"kStartAtZeroDepthOverStall", false, "",
        "kStartAtZeroDepth before kLessStall (prioritise async depth over stall)"},
       start_at_zero_depth,
       LhsFacts::start},
      {{"kLessStall", true, "", "the shorter wait later: starts go up until their time is covered"},
       less_stall,
       LhsFacts::stall},
      {{"kLessSerialResourceConflict", false, "serial", "fewer open ops of the same resource"},
       less_serial_conflict},
      {{"kStartAtZeroDepth", true, "", "a start with nothing asynchronous before it early"},
       start_at_zero_depth,
       LhsFacts::start},
      {{"kFreeBackedupResource", true, "", "a start that frees what others queue for later"},
       free_backed_up_resource,
       LhsFacts::backed_up},
      {{"kAsyncDepth", true, "", "what ends the longer chain of async ops later"}, async_depth},
      {{"kAvoidWaste", true, "", "compute that just fills the time to the next due node later"},
       avoid_waste},
      {{"kUnlockDone", true, "", "a reader of what a wait delivers later"}, unlock_done},
      {{"kNotValuableForSelectiveOverlap", false, "valuable",
        "what is worth running beside a selective op kept for it"},
       not_valuable_for_selective_overlap},
      {{"kCreatesMoreReadyNodes", true, "", "what makes more nodes ready later"},
       creates_more_ready_nodes},
      {{"kDecreaseMemory", true, "", "over half of the limit: what frees memory later"},
       decrease_memory,
       LhsFacts::pressure},
      {{"kOriginalOrder", true, "", "what stands later without latency hiding later"},
       original_order},
      {{"force_delay_over_memory_pressure", false, "",
        "setting: the rules from kSelectiveMemcpyOverlap to kForceDelayAfterTarget before those of "
        "memory"},
       nullptr},
      {{"stall_over_move_to_host", false, "",
        "setting, off in XLA: kDelayMoveToHostAsyncStart does not decide against what would stall"},
       nullptr},
      {{"lane_depth", true, "",
        "setting, off in XLA: the depth of a collective counts those queued before it"},
       nullptr},
      {{"decrease_memory_bytes", false, "",
        "setting, off in XLA: kDecreaseMemory compares bytes, not signs"},
       nullptr},
  };
  return rules;
}

const std::vector<LhsRuleInfo>& lhs_rule_table() {
  static const std::vector<LhsRuleInfo> table = [] {
    std::vector<LhsRuleInfo> made;
    for (const LhsRule& rule : lhs_rules())
      made.push_back(rule.info);
    return made;
  }();
  return table;
}

LhsRuleSet::LhsRuleSet(const SchedulerOptions& options) {
  const auto on = [&](const char* name) { return is_on(options.rules, name); };
  settings.stall_over_move_to_host = on("stall_over_move_to_host");
  settings.lane_depth = on("lane_depth");
  settings.decrease_memory_bytes = on("decrease_memory_bytes");
  settings.delay_async_starts =
      options.limits.collectives != 1 &&
      (on("kDelayAsyncStartForCompute") || on("kDelayAsyncStartForDepth"));
  std::vector<const LhsRule*> memory;  // held back
  const bool forced_first = on("force_delay_over_memory_pressure");
  for (const LhsRule& rule : lhs_rules()) {
    if (rule.compare == schedule_by_structure)
      rules.insert(rules.end(), memory.begin(), memory.end());
    const bool hinted = rule.info.needs[0] == '\0' || !options.hints.empty();
    if (!rule.compare || !hinted || !on(rule.info.name)) continue;
    const bool of_memory =
        rule.compare == decrease_memory_over_limit || rule.compare == memory_peak_over_limit;
    (of_memory && forced_first ? memory : rules).push_back(&rule);
  }
  counts.resize(rules.size());
}

std::map<std::string, int64_t> LhsRuleSet::counts_by_name() const {
  std::map<std::string, int64_t> named;
  for (size_t i = 0; i < rules.size(); ++i)
    named[rules[i]->info.name] = counts[i];
  return named;
}

}  // namespace spillway
