// Which ops of a body must wait for which: the order a scheduler may not break within one
// iteration.
#include <algorithm>

#include "harness/operands.h"
#include "harness/schedule.h"

namespace spillway {
namespace {

struct Access {
  int op = 0;
  bool writes = false;
  Operand operand;
};

// Accesses of a body by tensor, in program order.
std::vector<std::vector<Access>> accesses_by_tensor(const Program& program,
                                                    const Segment& segment) {
  std::vector<std::vector<Access>> result(program.tensors.size());
  for (size_t j = 0; j < segment.ops.size(); ++j) {
    const auto note = [&](const Operand& operand, bool writes) {
      result[static_cast<size_t>(operand.tensor)].push_back({static_cast<int>(j), writes, operand});
    };
    for (const Operand& operand : segment.ops[j].inputs)
      note(operand, false);
    for (const Operand& operand : segment.ops[j].outputs)
      note(operand, true);
  }
  return result;
}

}  // namespace

bool may_overlap(const Program& program, const Operand& a, const Operand& b, int64_t trips) {
  if (a.tensor != b.tensor) return false;
  if (a.index.whole || b.index.whole) return true;
  // The slices differ by `distance` + `drift` * iteration.
  const int64_t drift = a.index.stride - b.index.stride;
  const int64_t distance = a.index.offset - b.index.offset;
  const Tensor& tensor = program.at(a.tensor);
  if (tensor.ring) {
    for (int64_t i = 0; i < std::min(trips, tensor.slices); ++i) {
      if ((distance + drift * i) % tensor.slices == 0) return true;
    }
    return false;
  }
  if (drift == 0) return distance == 0;
  return distance % drift == 0 && -distance / drift >= 0 && -distance / drift < trips;
}

std::vector<std::vector<int>> dependencies(const Program& program, const Segment& segment) {
  std::vector<std::vector<int>> before(segment.ops.size());
  for (const std::vector<Access>& accesses : accesses_by_tensor(program, segment)) {
    for (size_t later = 0; later < accesses.size(); ++later) {
      const Access& b = accesses[later];
      for (size_t earlier = 0; earlier < later; ++earlier) {
        const Access& a = accesses[earlier];
        if (a.op == b.op || (!a.writes && !b.writes)) continue;
        if (may_overlap(program, a.operand, b.operand, segment.trips)) {
          before[static_cast<size_t>(b.op)].push_back(a.op);
        }
      }
    }
  }
  for (std::vector<int>& list : before) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return before;
}

}  // namespace spillway
