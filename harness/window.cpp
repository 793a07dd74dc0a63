#include "harness/window.h"

#include <algorithm>
#include <numeric>

namespace spillway {
namespace {

using SliceFlags = std::vector<std::vector<bool>>;

template <class Visit>
void for_each_operand(const Segment& segment, const Visit& visit) {
  for (const Op& op : segment.ops) {
    for (const Operand& operand : op.inputs)
      visit(operand, false);
    for (const Operand& operand : op.outputs)
      visit(operand, true);
  }
}

void flag(const Program& program, const Operand& operand, int64_t iteration, SliceFlags& flags) {
  const ByteRange range = range_of(program, operand, iteration);
  const int64_t bytes = program.at(operand.tensor).slice_bytes();
  std::vector<bool>& slices = flags[static_cast<size_t>(operand.tensor)];
  const auto begin = slices.begin() + range.begin / bytes;
  std::fill(begin, begin + range.size / bytes, true);
}

}  // namespace

Window window_of(const Program& program, const Segment& segment) {
  int64_t period = 1;
  for_each_operand(segment, [&](const Operand& operand, bool) {
    const Tensor& tensor = program.at(operand.tensor);
    if (tensor.ring) period = std::lcm(period, tensor.slices);
  });
  // Every slot is used, and one once more; at least three iterations.
  const int64_t head = std::max<int64_t>(3, period + 1);
  const int64_t skipped = std::max<int64_t>(0, (segment.trips - 2 * head) / period * period);
  return {head, head + skipped};
}

SliceFlags skipped_slices(const Program& program) {
  SliceFlags touched(program.tensors.size());
  for (size_t id = 0; id < touched.size(); ++id) {
    touched[id].resize(static_cast<size_t>(program.tensors[id].slices));
  }
  SliceFlags written = touched;
  for (const Segment& segment : program.segments) {
    const Window window = window_of(program, segment);
    for (int64_t i = 0; i < segment.trips; ++i) {
      const bool skipped = window.head <= i && i < window.tail;
      for_each_operand(segment, [&](const Operand& operand, bool writes) {
        if (skipped) flag(program, operand, i, touched);
        if (!skipped && writes) flag(program, operand, i, written);
      });
    }
  }
  for (size_t id = 0; id < touched.size(); ++id) {
    for (size_t k = 0; k < touched[id].size(); ++k) {
      if (written[id][k]) touched[id][k] = false;
    }
  }
  return touched;
}

}  // namespace spillway
