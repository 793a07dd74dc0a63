// What scheduling one more node means for memory.
#include "offload/lhs_memory.h"

#include <algorithm>

namespace spillway {

LhsMemory::LhsMemory(const BodyGraph& graph) : state_(graph.program.tensors.size()) {
  for (int op = 0; op < graph.size(); ++op) {
    begins_.push_back(static_cast<int>(touches_.size()));
    const auto touched_by = [](const std::vector<Operand>& operands, TensorId id) {
      return std::any_of(operands.begin(), operands.end(),
                         [&](const Operand& operand) { return operand.tensor == id; });
    };
    for (const TensorId id : graph.touches[index_of(op)]) {
      const bool made =
          touched_by(graph.op(op).outputs, id) && !touched_by(graph.op(op).inputs, id);
      touches_.push_back({id, graph.program.at(id).bytes(), made});
    }
  }
  begins_.push_back(static_cast<int>(touches_.size()));
}

// A local tensor is dead above the first of the ops that touch it, in the order being made; that op
// is the one before which no other op touching the tensor is left to schedule.
LhsMemory::Change LhsMemory::change_of(const OrderItem& item) const {
  int64_t born = 0, died = 0;
  for (int t = begins_[index_of(item.op)]; t < begins_[index_of(item.op) + 1]; ++t) {
    const Touch& touch = touches_[index_of(t)];
    if (state_[index_of(touch.tensor)] == Live::unseen) born += touch.bytes;
    if (touch.made && item.kind != StepKind::done) died += touch.bytes;
  }
  return {born - died, usage_ + born};
}

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
  for (int t = begins_[index_of(item.op)]; t < begins_[index_of(item.op) + 1]; ++t) {
    const Touch& touch = touches_[index_of(t)];
    const bool dies = touch.made && item.kind != StepKind::done;
    state_[index_of(touch.tensor)] = dies ? Live::dead : Live::live;
  }
}

}  // namespace spillway
