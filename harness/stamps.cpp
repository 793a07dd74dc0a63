// Numbers start at 1: a stamp of 0 is a slot never written, an expectation of 0 a slot that no copy
// writes before this reload within a step.
#include "harness/stamps.h"

#include "harness/error.h"

namespace spillway {

SlotStamps::SlotStamps(const Program& program) : program_(program) {
  size_t slots = 0;
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    if (program.tensors[id].space != Space::host) continue;
    first_slot_[static_cast<TensorId>(id)] = slots;
    slots += static_cast<size_t>(program.tensors[id].slices);
  }
  stamps_ = std::vector<std::atomic<int64_t>>(slots);
  number_writes();
  follow_program_order();
}

void SlotStamps::number_writes() {
  for (size_t s = 0; s < program_.segments.size(); ++s) {
    const Segment& segment = program_.segments[s];
    for (size_t i = 0; i < segment.ops.size(); ++i) {
      const Op& op = segment.ops[i];
      if (!is_host_copy(op)) continue;
      const bool to_host = op.kind == OpKind::copy_d2h;
      Copy& copy = copies_[{static_cast<int>(s), static_cast<int>(i)}];
      copy.host = to_host ? op.outputs.at(0) : op.inputs.at(0);
      copy.first_number = writes_per_step_ + 1;
      if (to_host) writes_per_step_ += segment.trips;
    }
  }
}

// Runs through one step in program order, copies only, to learn what each reload is meant to find.
void SlotStamps::follow_program_order() {
  std::vector<int64_t> last(stamps_.size(), 0);
  for (size_t s = 0; s < program_.segments.size(); ++s) {
    const Segment& segment = program_.segments[s];
    for (int64_t iteration = 0; iteration < segment.trips; ++iteration) {
      for (size_t i = 0; i < segment.ops.size(); ++i) {
        const auto found = copies_.find({static_cast<int>(s), static_cast<int>(i)});
        if (found == copies_.end()) continue;
        Copy& copy = found->second;
        const Slots slots = slots_of(copy.host, iteration);
        for (size_t slot = slots.first; slot < slots.first + slots.count; ++slot) {
          if (segment.ops[i].kind == OpKind::copy_d2h) {
            last[slot] = copy.first_number + iteration;
          } else {
            copy.expected.push_back(last[slot]);
          }
        }
      }
    }
  }
}

SlotStamps::Slots SlotStamps::slots_of(const Operand& operand, int64_t iteration) const {
  const auto tensor = first_slot_.find(operand.tensor);
  check(tensor != first_slot_.end(), "a host copy whose host side, ",
        program_.at(operand.tensor).name, ", is on the device");
  const ByteRange range = range_of(program_, operand, iteration);
  const int64_t slice = program_.at(operand.tensor).slice_bytes();
  return {tensor->second + static_cast<size_t>(range.begin / slice),
          static_cast<size_t>(range.size / slice)};
}

void SlotStamps::written(int segment, int op, int64_t iteration, int64_t step) {
  const Copy& copy = copies_.at({segment, op});
  const Slots slots = slots_of(copy.host, iteration);
  const int64_t value = stamp(step, copy.first_number + iteration);
  for (size_t i = 0; i < slots.count; ++i) {
    stamps_[slots.first + i].store(value, std::memory_order_relaxed);
  }
}

bool SlotStamps::fresh(int segment, int op, int64_t iteration, int64_t step) const {
  const Copy& copy = copies_.at({segment, op});
  const Slots slots = slots_of(copy.host, iteration);
  const size_t first = static_cast<size_t>(iteration) * slots.count;
  const bool to_host = copy.expected.empty();
  for (size_t i = 0; i < slots.count; ++i) {
    const int64_t expected = to_host ? copy.first_number + iteration : copy.expected[first + i];
    const int64_t found = stamps_[slots.first + i].load(std::memory_order_relaxed);
    if (expected != 0 && found != stamp(step, expected)) return false;
  }
  return true;
}

}  // namespace spillway
