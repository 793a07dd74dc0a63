// Nodes and edges of a body for the list scheduler.
#include <algorithm>
#include <limits>

#include "harness/ops.h"
#include "offload/lhs.h"

namespace spillway {

namespace {

// Nodes of an op: where it begins and where it is known to be finished (the same for a run).
struct NodesOfOp {
  int begin = -1, end = -1;
};

LhsResource resource_of(const Op& op) {
  if (is_host_copy(op)) return LhsResource::copy;
  return lane_of(op) == Lane::collective ? LhsResource::collective : LhsResource::none;
}

const OpHint* hint_of(const SchedulerOptions& options, const std::string& name) {
  static const OpHint none;
  if (options.hints.empty()) return &none;
  const auto found = options.hints.find(name);
  return found == options.hints.end() ? &none : &found->second;
}

LhsNode node_of(const BodyGraph& graph, const OrderItem& item, const SchedulerOptions& options) {
  const Op& op = graph.op(item.op);
  LhsNode node{.item = item, .resource = resource_of(op), .hint = hint_of(options, op.name)};
  const double seconds = item.kind == StepKind::done ? 0 : options.seconds(graph.program, op);
  (node.is_start() ? node.latency : node.cost) = seconds;
  node.to_host = op.kind == OpKind::copy_d2h;
  if (!options.hints.empty() && item.kind == StepKind::run) {
    const OpCost cost = info(op.kind).cost(graph.program, op);
    node.compute_bound = cost.matmul_flops + cost.attention_flops > 0;
  }
  return node;
}

void connect(LhsState& state, const std::vector<NodesOfOp>& ops) {
  for (LhsNode& node : state.nodes) {
    const NodesOfOp& own = ops[index_of(node.item.op)];
    const auto& before = state.graph.before[index_of(node.item.op)];
    const auto& after = state.graph.after[index_of(node.item.op)];
    state.predecessors.begin_list();
    if (node.is_done()) state.predecessors.push_back(own.begin);
    if (!node.is_done())
      for (const int from : before) {
        const NodesOfOp& earlier = ops[index_of(from)];
        state.predecessors.push_back(earlier.end);
        node.after_done = node.after_done || earlier.begin != earlier.end;
      }
    state.successors.begin_list();
    if (node.is_start()) state.successors.push_back(own.end);
    if (!node.is_start())
      for (const int to : after)
        state.successors.push_back(ops[index_of(to)].begin);
    node.unscheduled = node.is_start() ? 1 : static_cast<int>(after.size());
  }
}

// Nodes are numbered in the original order, so predecessors come first. Collectives queue on one
// lane: with `lane_depth` the depth of one includes those issued before it; without, whatever waits
// for a collective looks shallower than it is and ends up at the top of the body, where nothing
// hides it.
void measure_depth(LhsState& state) {
  double lane_depth = 0;
  for (int i = 0; i < static_cast<int>(state.nodes.size()); ++i) {
    LhsNode& node = state.node(i);
    for (const int from : state.predecessors[i]) {
      const LhsNode& earlier = state.node(from);
      const double async = node.is_done() ? earlier.latency : 0;
      node.async_depth = std::max(node.async_depth, earlier.async_depth + async);
      node.depth = std::max(node.depth, earlier.depth + earlier.cost + state.latency(from, i));
    }
    if (!state.settings.lane_depth || node.resource != LhsResource::collective) continue;
    if (!node.is_done()) continue;
    const double own = state.node(state.predecessors[i].front()).latency;
    node.async_depth = lane_depth = std::max(node.async_depth, lane_depth + own);
  }
}

}  // namespace

LhsState lhs_state(const BodyGraph& graph, const BodyOrder& original,
                   const SchedulerOptions& options, const LhsSettings& settings) {
  LhsState state(graph);
  state.settings = settings;
  state.limit[static_cast<size_t>(LhsResource::collective)] = options.limits.collectives;
  state.limit[static_cast<size_t>(LhsResource::copy)] = options.limits.copies;
  state.memory_limit = options.memory_limit;
  std::vector<NodesOfOp> ops(index_of(graph.size()));
  state.nodes.reserve(original.size());
  for (const OrderItem& item : original) {
    const int id = static_cast<int>(state.nodes.size());
    state.nodes.push_back(node_of(graph, item, options));
    state.nodes.back().rank = id;
    if (item.kind != StepKind::done) ops[index_of(item.op)].begin = id;
    if (item.kind != StepKind::start) ops[index_of(item.op)].end = id;
  }
  connect(state, ops);
  measure_depth(state);
  state.changes.resize(state.nodes.size());
  state.ready.reserve(state.nodes.size());
  return state;
}

void LhsState::begin_round() {
  over_half_of_limit = memory_limit > 0 && memory.usage() > memory_limit / 2;
  facts = over_half_of_limit ? LhsFacts::pressure : LhsFacts::none;
  double due = std::numeric_limits<double>::infinity();
  backed_up = {};
  selective_dones = 0;
  for (const int i : ready) {
    const LhsNode& each = node(i);
    if (each.ready > now) due = std::min(due, each.ready);
    selective_dones += each.is_done() && each.hint->selective ? 1 : 0;
    if (over_half_of_limit) changes[index_of(i)] = memory.change(each.item);
    if (blocked(each)) {
      backed_up[static_cast<size_t>(each.resource)] = true;
      facts = facts | LhsFacts::backed_up;
      continue;
    }
    if (each.is_start())
      facts = facts | (each.to_host ? LhsFacts::start | LhsFacts::host_write : LhsFacts::start);
    if (each.is_done()) facts = facts | LhsFacts::done;
    if (each.ready > now) facts = facts | LhsFacts::stall;
  }
  next_due = due == std::numeric_limits<double>::infinity() ? 0 : due;
}

}  // namespace spillway
