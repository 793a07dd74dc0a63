// Latency hiding off: each start beside its done, collectives moved as XLA's post-process does.
#include <algorithm>

#include "harness/ops.h"
#include "offload/order.h"

namespace spillway {

namespace {

// Where starts and dones stand relative to the positions of an op order.
struct Spread {
  std::vector<std::vector<int>> dones_before;  // position -> ops; one more: the end of the body
  std::vector<std::vector<int>> starts_after;  // position + 1 -> ops; 0: the top of the body
  std::vector<bool> moved_start, moved_done;   // per op
};

// XLA's PostProcessSchedule: a collective starts right after its last operand and is waited for
// right before its first user. An operand that is a moved collective itself is done only where this
// one stands, which is then where this one starts.
Spread spread_collectives(const BodyGraph& graph, const std::vector<int>& ops) {
  const size_t n = ops.size();
  std::vector<size_t> position(n);
  for (size_t k = 0; k < n; ++k)
    position[index_of(ops[k])] = k;
  Spread spread{std::vector<std::vector<int>>(n + 1), std::vector<std::vector<int>>(n + 1),
                std::vector<bool>(n, false), std::vector<bool>(n, false)};
  for (int op : ops) {
    if (lane_of(graph.op(op)) != Lane::collective) continue;
    size_t start = 0, done = n;
    bool behind_collective = false;
    for (int from : graph.before[index_of(op)]) {
      start = std::max(start, position[index_of(from)] + 1);
      behind_collective = behind_collective || lane_of(graph.op(from)) == Lane::collective;
    }
    for (int to : graph.after[index_of(op)])
      done = std::min(done, position[index_of(to)]);
    spread.moved_done[index_of(op)] = true;
    spread.dones_before[done].push_back(op);
    spread.moved_start[index_of(op)] = !behind_collective;
    if (!behind_collective) spread.starts_after[start].push_back(op);
  }
  return spread;
}

}  // namespace

BodyOrder blocking_order(const BodyGraph& graph, CollectivesWithoutLhs collectives) {
  const std::vector<int> ops = memory_order(graph);
  const size_t n = ops.size();
  Spread spread{std::vector<std::vector<int>>(n + 1), std::vector<std::vector<int>>(n + 1),
                std::vector<bool>(n, false), std::vector<bool>(n, false)};
  if (collectives == CollectivesWithoutLhs::post) spread = spread_collectives(graph, ops);
  BodyOrder order;
  for (size_t k = 0; k <= n; ++k) {
    for (int op : spread.starts_after[k])
      order.push_back({StepKind::start, op});
    for (int op : spread.dones_before[k])
      order.push_back({StepKind::done, op});
    if (k == n) break;
    const int op = ops[k];
    if (lane_of(graph.op(op)) == Lane::compute) {
      order.push_back({StepKind::run, op});
      continue;
    }
    if (!spread.moved_start[index_of(op)]) order.push_back({StepKind::start, op});
    if (!spread.moved_done[index_of(op)]) order.push_back({StepKind::done, op});
  }
  return order;
}

}  // namespace spillway
