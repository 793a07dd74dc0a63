// The list scheduler itself: graph, memory, and the loop that picks the best ready node. The rules
// it compares by are lhs_rules.cpp.
#include "offload/lhs.h"

#include <algorithm>

#include "harness/error.h"
#include "harness/ops.h"

namespace spillway {

namespace {

// XLA's parallel_collective_overlap_limit. Host copies have none: since XLA's PR 44359 a slice copy
// recognised as a memcpy is unlimited, and our lanes queue them in order.
constexpr int collective_limit = 1;

// Nodes of an op: where it begins and where it is known to be finished (the same for a run).
struct NodesOfOp {
  int begin = -1, end = -1;
};

double latency(const LhsState& state, int from, int to, const SchedulerOptions& options) {
  const OrderItem& a = state.node(from).item;
  const OrderItem& b = state.node(to).item;
  if (a.op != b.op) return plain_latency;
  return options.seconds(state.graph.program, state.graph.op(a.op));
}

void connect(LhsState& state, const std::vector<NodesOfOp>& nodes) {
  const auto edge = [&](int from, int to) {
    state.node(from).successors.push_back(to);
    state.node(to).predecessors.push_back(from);
  };
  for (size_t op = 0; op < nodes.size(); ++op) {
    if (nodes[op].begin != nodes[op].end) edge(nodes[op].begin, nodes[op].end);
    for (int from : state.graph.before[op]) {
      edge(nodes[index_of(from)].end, nodes[op].begin);
      LhsNode& begin = state.node(nodes[op].begin);
      begin.after_done =
          begin.after_done || nodes[index_of(from)].begin != nodes[index_of(from)].end;
    }
  }
  for (LhsNode& node : state.nodes)
    node.unscheduled = static_cast<int>(node.successors.size());
}

// Nodes are numbered in the original order, so predecessors come first. Collectives queue on one
// lane, so the depth of one includes those issued before it; without that, whatever waits for a
// collective looks shallower than it is and ends up at the top of the body, where nothing hides it.
void measure_depth(LhsState& state, const SchedulerOptions& options) {
  double lane_depth = 0;
  for (int i = 0; i < static_cast<int>(state.nodes.size()); ++i) {
    for (int from : state.node(i).predecessors) {
      const bool async = state.node(i).item.kind == StepKind::done;
      state.node(i).async_depth =
          std::max(state.node(i).async_depth,
                   state.node(from).async_depth + (async ? latency(state, from, i, options) : 0));
    }
    LhsNode& node = state.node(i);
    if (!node.collective) continue;
    if (node.item.kind == StepKind::done) {
      node.async_depth =
          std::max(node.async_depth,
                   lane_depth + options.seconds(state.graph.program, state.graph.op(node.item.op)));
      lane_depth = node.async_depth;
    }
  }
}

class Scheduler {
 public:
  Scheduler(LhsState& state, const SchedulerOptions& options,
            std::map<std::string, int64_t>& rule_counts)
      : state_(state), options_(options) {
    for (const LhsRule& rule : lhs_rules()) {
      const auto& off = options.rules_off;
      if (std::find(off.begin(), off.end(), rule.name) != off.end()) continue;
      rules_.push_back(&rule);
      counts_.push_back(&rule_counts[rule.name]);
    }
  }

  BodyOrder run();

 private:
  LhsCandidate candidate(int node) const;
  bool better(const LhsCandidate& a, const LhsCandidate& b);
  int pick();
  void schedule(int node);
  double due(int node) const;

  LhsState& state_;
  const SchedulerOptions& options_;
  std::vector<const LhsRule*> rules_;
  std::vector<int64_t*> counts_;
};

LhsCandidate Scheduler::candidate(int node) const {
  LhsCandidate result{.node = node, .memory = {}};
  if (state_.over_half_of_limit()) result.memory = state_.memory.change(state_.node(node).item);
  result.stall = std::max(state_.node(node).ready - state_.now, 0.0);
  for (int from : state_.node(node).predecessors) {
    result.unlocks += state_.node(from).unscheduled == 1 ? 1 : 0;
  }
  return result;
}

bool Scheduler::better(const LhsCandidate& a, const LhsCandidate& b) {
  for (size_t i = 0; i < rules_.size(); ++i) {
    const int verdict = rules_[i]->compare(state_, a, b);
    if (verdict == 0) continue;
    ++*counts_[i];
    return verdict > 0;
  }
  return false;
}

int Scheduler::pick() {
  LhsCandidate best{.node = -1, .memory = {}};
  for (int node : state_.ready) {
    if (state_.blocked(node)) continue;
    const LhsCandidate next = candidate(node);
    if (best.node < 0 || better(next, best)) best = next;
  }
  check(best.node >= 0, "no op of ", state_.graph.segment.name, " can be scheduled");
  return best.node;
}

// The earliest time at which a node stalls none of its successors.
double Scheduler::due(int node) const {
  double time = state_.now;
  for (int to : state_.node(node).successors) {
    time = std::max(time, state_.node(to).ready + latency(state_, node, to, options_));
  }
  return time;
}

void Scheduler::schedule(int picked) {
  LhsNode& node = state_.node(picked);
  if (node.collective) {
    state_.open_collectives += node.item.kind == StepKind::done ? 1 : 0;
    state_.open_collectives -= node.item.kind == StepKind::start ? 1 : 0;
  }
  node.ready = due(picked);  // waiting is time that passes
  state_.now = node.ready + node.cost;
  state_.memory.schedule(node.item);
  state_.ready.erase(std::find(state_.ready.begin(), state_.ready.end(), picked));
  for (int from : node.predecessors) {
    if (--state_.node(from).unscheduled > 0) continue;
    state_.node(from).ready = due(from);
    state_.ready.push_back(from);
  }
}

BodyOrder Scheduler::run() {
  BodyOrder order;
  for (int i = 0; i < static_cast<int>(state_.nodes.size()); ++i) {
    if (state_.node(i).unscheduled == 0) state_.ready.push_back(i);
  }
  while (!state_.ready.empty()) {
    const int node = pick();
    schedule(node);
    order.push_back(state_.node(node).item);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

// A local tensor is dead above the first of the ops that touch it, in the order being made; that op
// is the one before which no other op touching the tensor is left to schedule.
bool LhsMemory::dies_at(TensorId id, const OrderItem& item) const {
  if (item.kind == StepKind::done) return false;
  const auto& outputs = graph_.op(item.op).outputs;
  const auto& inputs = graph_.op(item.op).inputs;
  const auto is_it = [&](const Operand& operand) { return operand.tensor == id; };
  return std::any_of(outputs.begin(), outputs.end(), is_it) &&
         std::none_of(inputs.begin(), inputs.end(), is_it);
}

LhsMemory::Change LhsMemory::change_of(const OrderItem& item) const {
  int64_t born = 0, died = 0;
  for (TensorId id : graph_.touches[index_of(item.op)]) {
    const int64_t bytes = graph_.program.at(id).bytes();
    if (state_[index_of(id)] == Live::unseen) born += bytes;
    if (dies_at(id, item)) died += bytes;
  }
  return {born - died, usage_ + born};
}

// A done brings its start along: as XLA does, the smaller increase and the larger peak of both.
LhsMemory::Change LhsMemory::change(const OrderItem& item) const {
  Change both = change_of(item);
  if (item.kind != StepKind::done) return both;
  const Change start = change_of({StepKind::start, item.op});
  both.increase = std::min(both.increase, start.increase);
  both.peak = std::max(both.peak, start.peak);
  return both;
}

void LhsMemory::schedule(const OrderItem& item) {
  usage_ += change_of(item).increase;
  for (TensorId id : graph_.touches[index_of(item.op)]) {
    state_[index_of(id)] = dies_at(id, item) ? Live::dead : Live::live;
  }
}

bool LhsState::blocked(int i) const {
  return node(i).collective && node(i).item.kind == StepKind::done &&
         open_collectives >= collective_limit;
}

bool LhsState::frees_backed_up_lane(int i) const {
  if (!node(i).collective || node(i).item.kind != StepKind::start) return false;
  return std::any_of(ready.begin(), ready.end(), [&](int other) { return blocked(other); });
}

LhsState lhs_state(const BodyGraph& graph, const BodyOrder& original,
                   const SchedulerOptions& options) {
  LhsState state{.graph = graph,
                 .nodes = {},
                 .ready = {},
                 .memory_limit = options.memory_limit,
                 .memory = LhsMemory(graph)};
  std::vector<NodesOfOp> nodes(index_of(graph.size()));
  for (const OrderItem& item : original) {
    const Op& op = graph.op(item.op);
    const int id = static_cast<int>(state.nodes.size());
    LhsNode node{.item = item, .rank = id, .predecessors = {}, .successors = {}};
    if (item.kind == StepKind::run) node.cost = options.seconds(graph.program, op);
    node.to_host = op.kind == OpKind::copy_d2h;
    node.collective = lane_of(op) == Lane::collective;
    if (item.kind != StepKind::done) nodes[index_of(item.op)].begin = id;
    if (item.kind != StepKind::start) nodes[index_of(item.op)].end = id;
    state.nodes.push_back(std::move(node));
  }
  connect(state, nodes);
  measure_depth(state, options);
  return state;
}

BodyOrder latency_hiding_order(const BodyGraph& graph, const BodyOrder& original,
                               const SchedulerOptions& options,
                               std::map<std::string, int64_t>& rule_counts) {
  LhsState state = lhs_state(graph, original, options);
  return Scheduler(state, options, rule_counts).run();
}

}  // namespace spillway
