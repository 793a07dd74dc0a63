// Latency hiding: bottom-up list scheduling of one body, as XLA's DefaultSchedulerCore does it
// (mechanisms: "LHS algorithm"). Private to offload/.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "offload/order.h"

namespace spillway {

// Throws InputError for a name that is not a rule's.
void check_rule_names(const std::vector<std::string>& names);

BodyOrder latency_hiding_order(const BodyGraph& graph, const BodyOrder& original,
                               const SchedulerOptions& options,
                               std::map<std::string, int64_t>& rule_counts);

// Seconds between dependent nodes that are not a start and its done: one unit (a microsecond) in
// XLA's latency estimators, whatever the ops.
inline constexpr double plain_latency = 1e-6;

// A position to schedule: a compute op, a start or a done. Times are seconds counted backwards from
// the end of the body.
struct LhsNode {
  OrderItem item;
  double cost = 0;          // of a run; starts and dones take no time on the compute lane
  int rank = 0;             // place in the order without latency hiding
  double async_depth = 0;   // latency of async ops on the longest path from the top of the body
  bool to_host = false;     // part of a D2H
  bool collective = false;  // part of a collective
  bool after_done = false;  // reads what a done delivers
  std::vector<int> predecessors, successors;
  int unscheduled = 0;  // successors
  double ready = 0;     // earliest time that stalls nobody
};

// Local device memory while the body is scheduled from its end: operands become live, what a node
// brings into being dies.
class LhsMemory {
 public:
  explicit LhsMemory(const BodyGraph& graph)
      : graph_(graph), state_(graph.program.tensors.size()) {}

  struct Change {
    int64_t increase = 0;  // after the node, negative where it frees
    int64_t peak = 0;      // while it runs, over everything live
  };
  Change change(const OrderItem& item) const;
  void schedule(const OrderItem& item);
  int64_t usage() const { return usage_; }

 private:
  enum class Live : uint8_t { unseen, live, dead };
  Change change_of(const OrderItem& item) const;
  bool dies_at(TensorId id, const OrderItem& item) const;

  const BodyGraph& graph_;
  std::vector<Live> state_;
  int64_t usage_ = 0;
};

struct LhsState {
  const BodyGraph& graph;
  std::vector<LhsNode> nodes;
  std::vector<int> ready;  // all successors scheduled
  double now = 0;
  int open_collectives = 0;  // between done and start
  int64_t memory_limit = 0;
  LhsMemory memory;

  const LhsNode& node(int i) const { return nodes[static_cast<size_t>(i)]; }
  LhsNode& node(int i) { return nodes[static_cast<size_t>(i)]; }
  bool over_half_of_limit() const { return memory_limit > 0 && memory.usage() > memory_limit / 2; }
  // Whether the lane this item would occupy is taken.
  bool blocked(int node) const;
  // Whether scheduling this start would free a lane that another ready node needs.
  bool frees_backed_up_lane(int node) const;
};
LhsState lhs_state(const BodyGraph& graph, const BodyOrder& original,
                   const SchedulerOptions& options);

// A ready node with what the rules ask of it, once per round.
struct LhsCandidate {
  int node = 0;
  LhsMemory::Change memory;
  double stall = 0;  // seconds until it is due
  int unlocks = 0;   // nodes that only wait for it
};

// A rule prefers a (positive), b (negative) or neither (0). "Prefers" means: nearer the end.
struct LhsRule {
  const char* name;
  int (*compare)(const LhsState&, const LhsCandidate& a, const LhsCandidate& b);
};
const std::vector<LhsRule>& lhs_rules();

}  // namespace spillway
