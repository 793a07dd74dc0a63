// XLA's comparison rules, in XLA's order (ReadySetLt::AIsBetterThanB). "Better" means nearer the
// end of the body, since scheduling runs from the end. Rules that XLA has off by default, and those
// for annotations these programs do not carry (kForceEarly, kForceDelay, kPreference), are left
// out.
#include <cmath>

#include "harness/error.h"
#include "harness/ops.h"
#include "offload/lhs.h"

namespace spillway {

namespace {

using State = LhsState;
using Candidate = LhsCandidate;

int prefer(bool a, bool b) { return static_cast<int>(a) - static_cast<int>(b); }
template <class T>
int prefer_smaller(T a, T b) {
  return prefer(a < b, b < a);
}

StepKind kind(const State& state, const Candidate& c) { return state.node(c.node).item.kind; }
bool is_start(const State& state, const Candidate& c) { return kind(state, c) == StepKind::start; }
bool is_done(const State& state, const Candidate& c) { return kind(state, c) == StepKind::done; }

// Rule 5 of the table sleeps below half of the limit.
int decrease_memory_over_limit(const State& state, const Candidate& a, const Candidate& b) {
  if (!state.over_half_of_limit() || state.memory.usage() < state.memory_limit) return 0;
  return prefer_smaller(a.memory.increase, b.memory.increase);
}

int memory_peak_over_limit(const State& state, const Candidate& a, const Candidate& b) {
  if (!state.over_half_of_limit()) return 0;
  return prefer(a.memory.peak <= state.memory_limit, b.memory.peak <= state.memory_limit);
}

// A write to the host loses to anything else: it starts as early as its producer allows. Unlike in
// XLA it does not lose to what would stall the device: its producers can only be placed after it,
// so waiting for a collective instead would leave them with nothing to hide that collective.
int delay_move_to_host_start(const State& state, const Candidate& a, const Candidate& b) {
  if ((a.stall > plain_latency) != (b.stall > plain_latency)) return 0;
  const auto delayed = [&](const Candidate& c) {
    return is_start(state, c) && state.node(c.node).to_host;
  };
  return prefer(!delayed(a), !delayed(b));
}

// A wait is as late as the lanes allow.
int schedule_done(const State& state, const Candidate& a, const Candidate& b) {
  return prefer(is_done(state, a), is_done(state, b));
}

// A start whose latency is not yet covered loses to ready compute: this stretches start and done.
int less_stall(const State&, const Candidate& a, const Candidate& b) {
  return prefer_smaller(a.stall, b.stall);
}

int start_at_zero_depth(const State& state, const Candidate& a, const Candidate& b) {
  const auto delayed = [&](const Candidate& c) {
    return is_start(state, c) && state.node(c.node).async_depth == 0 &&
           !state.frees_backed_up_lane(c.node);
  };
  return prefer(!delayed(a), !delayed(b));
}

int free_backed_up_resource(const State& state, const Candidate& a, const Candidate& b) {
  return prefer(state.frees_backed_up_lane(a.node), state.frees_backed_up_lane(b.node));
}

int async_depth(const State& state, const Candidate& a, const Candidate& b) {
  return prefer_smaller(state.node(b.node).async_depth, state.node(a.node).async_depth);
}

// Compute that fills the time until the next node is due, no more and no less.
int avoid_waste(const State& state, const Candidate& a, const Candidate& b) {
  double next_due = 0;
  for (int node : state.ready) {
    const double due = state.node(node).ready;
    if (due > state.now && (next_due == 0 || due < next_due)) next_due = due;
  }
  if (next_due == 0) return 0;
  const auto waste = [&](const Candidate& c) {
    return std::abs(next_due - state.now - state.node(c.node).cost);
  };
  return prefer(!is_start(state, a) && waste(a) < waste(b),
                !is_start(state, b) && waste(b) < waste(a));
}

int unlock_done(const State& state, const Candidate& a, const Candidate& b) {
  return prefer(state.node(a.node).after_done, state.node(b.node).after_done);
}

int creates_more_ready_nodes(const State&, const Candidate& a, const Candidate& b) {
  return prefer_smaller(b.unlocks, a.unlocks);
}

int decrease_memory(const State& state, const Candidate& a, const Candidate& b) {
  if (!state.over_half_of_limit()) return 0;
  return prefer_smaller(a.memory.increase, b.memory.increase);
}

int original_order(const State& state, const Candidate& a, const Candidate& b) {
  return prefer_smaller(state.node(b.node).rank, state.node(a.node).rank);
}

}  // namespace

const std::vector<LhsRule>& lhs_rules() {
  static const std::vector<LhsRule> rules = {
      {"kDecreaseMemoryOverLimit", decrease_memory_over_limit},
      {"kMemoryPeakOverLimit", memory_peak_over_limit},
      {"kDelayMoveToHostAsyncStart", delay_move_to_host_start},
      {"kScheduleDone", schedule_done},
      {"kLessStall", less_stall},
      {"kStartAtZeroDepth", start_at_zero_depth},
      {"kFreeBackedupResource", free_backed_up_resource},
      {"kAsyncDepth", async_depth},
      {"kAvoidWaste", avoid_waste},
      {"kUnlockDone", unlock_done},
      {"kCreatesMoreReadyNodes", creates_more_ready_nodes},
      {"kDecreaseMemory", decrease_memory},
      {"kOriginalOrder", original_order},
  };
  return rules;
}

const std::vector<std::string>& lhs_rule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const LhsRule& rule : lhs_rules())
      out.push_back(rule.name);
    return out;
  }();
  return names;
}

void check_rule_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::string known;
    bool found = false;
    for (const std::string& rule : lhs_rule_names()) {
      found = found || rule == name;
      known += (known.empty() ? "" : ", ") + rule;
    }
    if (!found)
      throw InputError(text("unknown scheduling rule '", name, "', expected one of ", known));
  }
}

}  // namespace spillway
