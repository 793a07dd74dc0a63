// What scheduling one more node means for memory.
#include "offload/lhs_memory.h"

#include <algorithm>

namespace spillway {

// A local tensor is dead above the first of the ops that touch it, in the order being made; that op
// is the one before which no other op touching the tensor is left to schedule.
LhsMemory::Change LhsMemory::change_of(const OrderItem& item) const {
  int64_t born = 0, died = 0;
  for (const LocalTensor& local : graph_.touches[index_of(item.op)]) {
    if (!seen_[index_of(local.id)]) born += local.bytes;
    if (local.made && item.kind != StepKind::done) died += local.bytes;
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
  for (const LocalTensor& local : graph_.touches[index_of(item.op)])
    seen_[index_of(local.id)] = true;
}

}  // namespace spillway
