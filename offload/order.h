// What the schedulers share: a body's dependencies as a graph, and the order without latency
// hiding. Private to offload/.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/schedule.h"
#include "offload/scheduler.h"

namespace spillway {

// A local device tensor as one op of a body touches it.
struct LocalTensor {
  TensorId id = no_tensor;
  int64_t bytes = 0;
  bool made = false;  // the op writes and does not read it
};

// A body as a graph of ops. Lists hold op indices, ascending, without duplicates.
struct BodyGraph {
  const Program& program;
  const Segment& segment;
  std::vector<std::vector<int>> before, after;
  std::vector<std::vector<LocalTensor>> touches;  // of each op
  int64_t bytes_around = 0;  // of device tensors that live from segment to segment through this one

  int size() const { return static_cast<int>(segment.ops.size()); }
  const Op& op(int i) const { return segment.ops[static_cast<size_t>(i)]; }
};
BodyGraph graph_of(const Program& program, const Segment& segment);
// Per segment: device bytes of tensors of Extent::step that are alive while it runs.
std::vector<int64_t> bytes_around_segments(const Program& program);

// Largest sum of local device bytes alive at one position when the ops run one after the other.
int64_t peak_bytes(const BodyGraph& graph, const std::vector<int>& ops);

// The order of lowest peak among program order, depth-first and greedy list order; host copies
// stand where they hold memory for the shortest time.
std::vector<int> memory_order(const BodyGraph& graph);

// memory_order() with starts and dones: without latency hiding, and the tie-break with it.
BodyOrder blocking_order(const BodyGraph& graph, CollectivesWithoutLhs collectives);

}  // namespace spillway
