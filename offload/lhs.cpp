// The list scheduler's loop: pick the best ready node, account for it. Its graph is lhs_graph.cpp,
// the rules it compares by lhs_rules.cpp.
#include "offload/lhs.h"

#include <algorithm>

#include "harness/error.h"

namespace spillway {

namespace {

class Scheduler {
 public:
  Scheduler(LhsState& state, LhsRuleSet& rules) : state_(state), rules_(rules) {}
  BodyOrder run();

 private:
  bool better(int a, int b);
  int pick();
  void occupy(const LhsNode& node);
  void schedule(int node);
  double due(int node) const;

  LhsState& state_;
  LhsRuleSet& rules_;
  std::vector<size_t> asked_;  // the rules that can decide in this round
};

bool Scheduler::better(int a, int b) {
  for (const size_t i : asked_) {
    const int verdict = rules_.rules[i]->compare(state_, a, b);
    if (verdict == 0) continue;
    ++rules_.counts[i];
    return verdict > 0;
  }
  return false;
}

int Scheduler::pick() {
  state_.begin_round();
  asked_.clear();
  for (size_t i = 0; i < rules_.rules.size(); ++i)
    if (includes(state_.facts, rules_.rules[i]->where)) asked_.push_back(i);
  int best = -1;
  for (const int node : state_.ready) {
    if (state_.blocked(state_.node(node))) continue;
    if (best < 0 || better(node, best)) best = node;
  }
  check(best >= 0, "no op of ", state_.graph.segment.name, " can be scheduled");
  return best;
}

// The earliest time at which a node stalls none of its successors.
double Scheduler::due(int node) const {
  double time = state_.now;
  for (const int to : state_.successors[node])
    time = std::max(time, state_.node(to).ready + state_.latency(node, to));
  return time;
}

void Scheduler::occupy(const LhsNode& node) {
  if (node.item.kind == StepKind::run) return;
  const int change = node.is_done() ? 1 : -1;
  state_.open[static_cast<size_t>(node.resource)] += change;
  state_.open_serial += node.hint->serial ? change : 0;
  state_.open_windows += node.hint->window ? change : 0;
  state_.open_selective += node.hint->selective ? change : 0;
}

void Scheduler::schedule(int picked) {
  LhsNode& node = state_.node(picked);
  occupy(node);
  node.ready = due(picked);  // waiting is time that passes
  state_.now = node.ready + node.cost;
  state_.memory.schedule(node.item);
  state_.ready.erase(std::find(state_.ready.begin(), state_.ready.end(), picked));
  for (const int from : state_.predecessors[picked]) {
    if (--state_.node(from).unscheduled > 0) continue;
    state_.node(from).ready = due(from);
    state_.ready.push_back(from);
  }
}

BodyOrder Scheduler::run() {
  BodyOrder order;
  order.reserve(state_.nodes.size());
  for (int i = 0; i < static_cast<int>(state_.nodes.size()); ++i)
    if (state_.node(i).unscheduled == 0) state_.ready.push_back(i);
  while (!state_.ready.empty()) {
    const int node = pick();
    schedule(node);
    order.push_back(state_.node(node).item);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

BodyOrder latency_hiding_order(const BodyGraph& graph, const BodyOrder& original,
                               const SchedulerOptions& options, LhsRuleSet& rules) {
  LhsState state = lhs_state(graph, original, options, rules.settings);
  return Scheduler(state, rules).run();
}

}  // namespace spillway
