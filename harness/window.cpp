#include "harness/window.h"

#include <algorithm>
#include <numeric>

#include "harness/operands.h"

namespace spillway {
namespace {

template <class Visit>
void for_each_operand(const Segment& segment, const Visit& visit) {
  for (const Op& op : segment.ops) {
    for (const Operand& operand : op.inputs)
      visit(operand, false);
    for (const Operand& operand : op.outputs)
      visit(operand, true);
  }
}

// What happens to a slice, as bits.
constexpr uint8_t alone = 1;    // touched by itself in an iteration that is looked at
constexpr uint8_t written = 2;  // in an iteration that is looked at
constexpr uint8_t skipped = 4;  // touched in one that is not

class SliceUse {
 public:
  SliceUse(const Program& program, const std::vector<int>& first_slice)
      : program_(program), first_slice_(first_slice), use_(index_of(first_slice.back())) {
    for (const Segment& segment : program.segments) {
      window_ = window_of(program, segment);
      trips_ = segment.trips;
      for_each_operand(segment, [&](const Operand& operand, bool writes) {
        operand.index.whole ? note_whole(operand.tensor, writes) : note_slices(operand, writes);
      });
    }
  }
  const std::vector<uint8_t>& use() const { return use_; }

 private:
  uint8_t* slices_of(TensorId tensor) {
    return use_.data() + first_slice_[static_cast<size_t>(tensor)];
  }

  // Written in a skipped iteration means written in every other one too.
  void note_whole(TensorId tensor, bool writes) {
    const bool skips = window_.head < window_.tail;
    const uint8_t what = static_cast<uint8_t>((writes ? written : 0) | (skips ? skipped : 0));
    uint8_t* slices = slices_of(tensor);
    for (int64_t k = 0; k < program_.at(tensor).slices; ++k)
      slices[k] |= what;
  }

  void note_slices(const Operand& operand, bool writes) {
    const uint8_t what = static_cast<uint8_t>(alone | (writes ? written : 0));
    const Tensor& tensor = program_.at(operand.tensor);
    uint8_t* slices = slices_of(operand.tensor);
    for_each_iteration(window_, trips_,
                       [&](int64_t i) { slices[slice_of(tensor, operand.index, i)] |= what; });
    for (int64_t i = window_.head; i < window_.tail; ++i)
      slices[slice_of(tensor, operand.index, i)] |= skipped;
  }

  const Program& program_;
  const std::vector<int>& first_slice_;
  std::vector<uint8_t> use_;
  Window window_;
  int64_t trips_ = 0;
};

bool is_held(uint8_t use) { return (use & skipped) && !(use & written); }

}  // namespace

Window window_of(const Program& program, const Segment& segment) {
  int64_t period = 1;
  for_each_operand(segment, [&](const Operand& operand, bool) {
    const Tensor& tensor = program.at(operand.tensor);
    if (tensor.ring) period = std::lcm(period, tensor.slices);
  });
  // Every slot is used, and one once more; at least three iterations.
  const int64_t head = std::max<int64_t>(3, period + 1);
  const int64_t skipped_trips = std::max<int64_t>(0, (segment.trips - 2 * head) / period * period);
  return {head, head + skipped_trips};
}

Parts parts_of(const Program& program) {
  Parts parts;
  int slices = 0;
  for (const Tensor& tensor : program.tensors) {
    parts.first_slice.push_back(slices);
    slices += static_cast<int>(tensor.slices);
  }
  parts.first_slice.push_back(slices);
  const SliceUse known(program, parts.first_slice);
  const std::vector<uint8_t>& use = known.use();
  parts.of_slice.resize(use.size());
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    parts.first.push_back(static_cast<int>(parts.slice.size()));
    const size_t begin = index_of(parts.first_slice[id]), end = index_of(parts.first_slice[id + 1]);
    for (size_t k = begin; k < end; ++k) {
      const bool begins =
          k == begin || ((use[k] | use[k - 1]) & alone) || is_held(use[k]) != is_held(use[k - 1]);
      if (begins) {
        parts.slice.push_back(static_cast<int64_t>(k - begin));
        parts.held.push_back(is_held(use[k]));
      }
      parts.of_slice[k] = static_cast<int>(parts.slice.size()) - 1;
    }
  }
  parts.first.push_back(static_cast<int>(parts.slice.size()));
  return parts;
}

}  // namespace spillway
