// Which ops of a body must wait for which: the order a scheduler may not break within one
// iteration.
#include <algorithm>
#include <numeric>

#include "harness/operands.h"
#include "harness/schedule.h"

namespace spillway {
namespace {

struct Touch {
  int op = 0;
  bool writes = false;
  const Operand* operand = nullptr;
};

// What a body touches, by tensor, in program order.
struct Touches {
  std::vector<size_t> end;  // per tensor, in `list`; it begins where the one before ends
  std::vector<Touch> list;
};

Touches touches_of(const Program& program, const Segment& segment) {
  const auto for_each = [&](const auto& visit) {
    for (size_t j = 0; j < segment.ops.size(); ++j) {
      for (const Operand& operand : segment.ops[j].inputs)
        visit(Touch{static_cast<int>(j), false, &operand});
      for (const Operand& operand : segment.ops[j].outputs)
        visit(Touch{static_cast<int>(j), true, &operand});
    }
  };
  Touches result;
  result.end.resize(program.tensors.size() + 1);
  for_each([&](const Touch& t) { ++result.end[static_cast<size_t>(t.operand->tensor) + 1]; });
  std::partial_sum(result.end.begin(), result.end.end(), result.end.begin());
  result.list.resize(result.end.back());
  for_each([&](const Touch& t) {
    result.list[result.end[static_cast<size_t>(t.operand->tensor)]++] = t;
  });
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
  const Touches touches = touches_of(program, segment);
  size_t begin = 0;
  for (const size_t end : touches.end) {
    for (size_t later = begin; later < end; ++later) {
      const Touch& b = touches.list[later];
      for (size_t earlier = begin; earlier < later; ++earlier) {
        const Touch& a = touches.list[earlier];
        if (a.op == b.op || (!a.writes && !b.writes)) continue;
        if (may_overlap(program, *a.operand, *b.operand, segment.trips))
          before[static_cast<size_t>(b.op)].push_back(a.op);
      }
    }
    begin = end;
  }
  for (std::vector<int>& list : before) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return before;
}

}  // namespace spillway
