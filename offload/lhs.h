// Latency hiding: bottom-up list scheduling of one body, as XLA's DefaultSchedulerCore does it
// (mechanisms: "LHS algorithm"). Private to offload/.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "offload/lhs_memory.h"
#include "offload/order.h"

namespace spillway {

// Seconds between dependent nodes that are not a start and its done: one unit (a microsecond) in
// XLA's latency estimators, whatever the ops.
inline constexpr double plain_latency = 1e-6;

// What an async op occupies from its done to its start, bottom-up.
enum class LhsResource : uint8_t { none, collective, copy };
inline constexpr size_t lhs_resource_count = 3;

// A position to schedule: a compute op, a start or a done. Times are seconds counted backwards from
// the end of the body.
struct LhsNode {
  OrderItem item;
  double cost = 0;     // of a run; starts and dones take no time on the compute lane
  double latency = 0;  // of a start: to its done
  int rank = 0;        // place in the order without latency hiding
  LhsResource resource = LhsResource::none;
  bool to_host = false;        // part of a D2H
  bool after_done = false;     // reads what a done delivers
  bool compute_bound = false;  // spends its time on products
  const OpHint* hint = nullptr;
  double async_depth = 0;  // latency of async ops on the longest path from the top of the body
  double depth = 0;        // all costs and latencies on it
  int unscheduled = 0;     // successors
  double ready = 0;        // earliest time that stalls nobody

  bool is_start() const { return item.kind == StepKind::start; }
  bool is_done() const { return item.kind == StepKind::done; }
};

// Lists of nodes, one for each node, in one array.
class NodeLists {
 public:
  void begin_list() { begins_.push_back(static_cast<int>(items_.size())); }
  void push_back(int node) { items_.push_back(node); }
  std::span<const int> operator[](int node) const {
    const auto begin = static_cast<size_t>(begins_[index_of(node)]);
    const size_t end = index_of(node) + 1 < begins_.size()
                           ? static_cast<size_t>(begins_[index_of(node) + 1])
                           : items_.size();
    return {items_.data() + begin, end - begin};
  }

 private:
  std::vector<int> begins_, items_;
};

struct LhsState;

// What holds in a round of choosing: of some node that may be chosen, or of the state.
enum class LhsFacts : uint8_t {
  none = 0,
  start = 1,
  host_write = 2,  // a start
  done = 4,
  stall = 8,  // not due yet
  backed_up = 16,
  pressure = 32,  // over half of the memory limit
};
constexpr LhsFacts operator|(LhsFacts a, LhsFacts b) {
  return static_cast<LhsFacts>(static_cast<int>(a) | static_cast<int>(b));
}
constexpr bool includes(LhsFacts all, LhsFacts asked) { return (all | asked) == all; }

// The settings among the rules' names (lhs_rule_table()).
struct LhsSettings {
  bool stall_over_move_to_host = false, lane_depth = true, decrease_memory_bytes = false;
  bool delay_async_starts = false;  // one of kDelayAsyncStart* acts
};

// A rule prefers a (positive), b (negative) or neither (0); both are ready nodes. "Prefers" means:
// nearer the end. Settings have no comparison.
struct LhsRule {
  LhsRuleInfo info;
  int (*compare)(const LhsState&, int a, int b);
  LhsFacts where = LhsFacts::none;  // it never decides in a round without all of these
};
const std::vector<LhsRule>& lhs_rules();

// What is the same for all bodies: the rules that can decide, in the order in which they are asked.
struct LhsRuleSet {
  explicit LhsRuleSet(const SchedulerOptions& options);
  std::map<std::string, int64_t> counts_by_name() const;

  LhsSettings settings;
  std::vector<const LhsRule*> rules;
  std::vector<int64_t> counts;  // how often each decided, over all bodies
};

BodyOrder latency_hiding_order(const BodyGraph& graph, const BodyOrder& original,
                               const SchedulerOptions& options, LhsRuleSet& rules);

struct LhsState {
  explicit LhsState(const BodyGraph& body) : graph(body), memory(body) {}

  const BodyGraph& graph;
  std::vector<LhsNode> nodes;
  NodeLists predecessors, successors;
  std::vector<int> ready;  // all successors scheduled
  double now = 0;
  std::array<int64_t, lhs_resource_count> open{}, limit{};  // between done and start; 0: no limit
  int open_serial = 0, open_windows = 0, open_selective = 0;
  int64_t memory_limit = 0;
  LhsMemory memory;
  LhsSettings settings;

  // What a round of choosing asks more than once.
  LhsFacts facts = LhsFacts::none;
  bool over_half_of_limit = false;
  double next_due = 0;                               // after now, of the ready nodes; 0: none
  std::array<bool, lhs_resource_count> backed_up{};  // a ready done waits for the resource
  int selective_dones = 0;                           // ready
  std::vector<LhsMemory::Change> changes;            // per node, of ready ones over half
  void begin_round();

  const LhsNode& node(int i) const { return nodes[index_of(i)]; }
  LhsNode& node(int i) { return nodes[index_of(i)]; }
  const LhsMemory::Change& change(int i) const { return changes[index_of(i)]; }
  double latency(int from, int to) const {
    return node(from).item.op == node(to).item.op ? node(from).latency : plain_latency;
  }
  // Whether the resource this node would occupy is taken.
  bool blocked(const LhsNode& node) const {
    const auto resource = static_cast<size_t>(node.resource);
    return node.is_done() && limit[resource] > 0 && open[resource] >= limit[resource];
  }
  // Whether this node is a start that would free a resource that a ready done needs.
  bool frees_backed_up_resource(const LhsNode& node) const {
    return node.is_start() && backed_up[static_cast<size_t>(node.resource)];
  }
};
// Nodes and edges of a body; no node is ready yet.
LhsState lhs_state(const BodyGraph& graph, const BodyOrder& original,
                   const SchedulerOptions& options, const LhsSettings& settings);

}  // namespace spillway
