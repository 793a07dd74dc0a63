// Local device memory while a body is scheduled from its end: operands become live, what a node
// brings into being dies (XLA's MemoryPressureTracker). Private to offload/.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/order.h"

namespace spillway {

class LhsMemory {
 public:
  explicit LhsMemory(const BodyGraph& graph)
      : graph_(graph), seen_(graph.program.tensors.size()), usage_(graph.bytes_around) {}

  struct Change {
    int64_t increase = 0;  // after the node, negative where it frees
    int64_t peak = 0;      // while it runs, over everything live
  };
  // A done brings its start along: as XLA does, the smaller increase and the larger peak of both.
  Change change(const OrderItem& item) const;
  void schedule(const OrderItem& item);
  int64_t usage() const { return usage_; }

 private:
  Change change_of(const OrderItem& item) const;

  const BodyGraph& graph_;
  std::vector<bool> seen_;  // per tensor of the program: live, or dead again
  int64_t usage_;
};

}  // namespace spillway
