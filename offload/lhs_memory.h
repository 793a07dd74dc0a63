// Local device memory while a body is scheduled from its end: operands become live, what a node
// brings into being dies (XLA's MemoryPressureTracker). Private to offload/.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/order.h"

namespace spillway {

class LhsMemory {
 public:
  explicit LhsMemory(const BodyGraph& graph);

  struct Change {
    int64_t increase = 0;  // after the node, negative where it frees
    int64_t peak = 0;      // while it runs, over everything live
  };
  // A done brings its start along: as XLA does, the smaller increase and the larger peak of both.
  Change change(const OrderItem& item) const;
  void schedule(const OrderItem& item);
  int64_t usage() const { return usage_; }

 private:
  enum class Live : uint8_t { unseen, live, dead };
  struct Touch {
    TensorId tensor = no_tensor;
    int64_t bytes = 0;
    bool made = false;  // the op writes and does not read it
  };
  Change change_of(const OrderItem& item) const;

  std::vector<Touch> touches_;  // op by op
  std::vector<int> begins_;     // of an op's touches; one more at the end
  std::vector<Live> state_;     // per tensor of the program
  int64_t usage_ = 0;
};

}  // namespace spillway
