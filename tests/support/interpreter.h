// Runs programs and schedules symbolically: the value of a slice is a hash of how it was computed.
// Two programs that give a tensor the same value compute the same thing, whatever was kept, moved,
// recomputed, rotated or reordered on the way. Moving data (copies, casts of a slice, collectives)
// does not change a value. Written apart from the passes it judges: it knows only what an op reads
// and writes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/schedule.h"

namespace spillway {

class Interpreter {
 public:
  // When an asynchronous op of a schedule takes effect; a right schedule means the same either way.
  enum class Effect { at_start, at_done };

  // A program at Stage::built means what its policies must preserve: its backward reads the forward
  // values of its own layer, and a carried ring keeps every slice.
  explicit Interpreter(const Program& program, Stage stage = Stage::complete);

  // One training step. Throws std::logic_error where an undefined value is read.
  void step();
  // The same in a schedule's order. Tensors are undefined outside their lifetimes.
  void step(const Schedule& schedule, Effect effect);

  // Values of all persistent device tensors, one a slice, by name.
  std::map<std::string, std::vector<uint64_t>> persistent() const;

 private:
  using Slices = std::vector<uint64_t>;

  void begin_step();
  void undefine(TensorId id);
  void execute(const Segment& segment, const Op& op, int64_t iteration);
  void perform(const Segment& segment, const SegmentSchedule& plan, int64_t iteration,
               Effect effect);
  Slices read(const Segment& segment, const Op& op, const Operand& operand,
              int64_t iteration) const;
  const Slices& value_of(const Segment& segment, TensorId id, int64_t iteration) const;
  int64_t first_slice(const Operand& operand, int64_t iteration) const;

  const Program& program_;
  Stage stage_;
  std::vector<Slices> values_;  // per tensor; 0 is undefined
  // Stage::built: all values after each iteration of each forward segment.
  std::vector<std::vector<std::vector<Slices>>> history_;
};

}  // namespace spillway
