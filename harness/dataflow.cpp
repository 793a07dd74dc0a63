// Part of verify(): every value is written before it is read, by one producer, where it may be.
#include <algorithm>

#include "harness/error.h"
#include "harness/verify.h"

namespace spillway {
namespace {

// Walks the ops once, in sequential meaning.
class Dataflow {
 public:
  Dataflow(const Program& program, Stage stage)
      : program_(program),
        stage_(stage),
        home_(program.tensors.size(), -1),
        written_(program.tensors.size()) {
    for (size_t id = 0; id < written_.size(); ++id) {
      written_[id].resize(static_cast<size_t>(program.tensors[id].slices));
    }
  }

  void run() {
    for (size_t s = 0; s < program_.segments.size(); ++s) {
      const Segment& segment = program_.segments[s];
      for (const Op& op : segment.ops)
        visit_locals(static_cast<int>(s), op);
      for (int64_t i = 0; i < segment.trips; ++i) {
        for (const Op& op : segment.ops)
          visit_carried(segment, op, i);
      }
    }
  }

 private:
  void visit_locals(int s, const Op& op) {
    for (const Operand& operand : op.inputs) {
      if (is_local(operand)) read_local(s, op, operand);
    }
    for (const Operand& operand : op.outputs) {
      if (is_local(operand)) write_local(s, op, operand);
    }
  }

  void read_local(int s, const Op& op, const Operand& operand) {
    const int home = home_[static_cast<size_t>(operand.tensor)];
    expect(home >= 0, s, op, operand, "is read before it is written");
    if (home == s) return;
    const bool by_backward = program_.segments[static_cast<size_t>(s)].forward_segment == home;
    expect(stage_ == Stage::built && by_backward && operand.index.whole, s, op, operand,
           "is local to another segment");
  }

  void write_local(int s, const Op& op, const Operand& operand) {
    int& home = home_[static_cast<size_t>(operand.tensor)];
    expect(home < 0 || home == s, s, op, operand, "is local to another segment");
    const bool updates = std::any_of(op.inputs.begin(), op.inputs.end(), [&](const Operand& input) {
      return input.tensor == operand.tensor;
    });
    expect(home < 0 || updates, s, op, operand, "has a second producer");
    home = s;
  }

  // Step tensors and host slots: every slice that is read was written earlier in the step.
  void visit_carried(const Segment& segment, const Op& op, int64_t iteration) {
    for (const Operand& operand : op.inputs) {
      if (!is_carried(operand)) continue;
      for (int64_t k = first_slice(operand, iteration); k < end_slice(operand, iteration); ++k) {
        check(written_[static_cast<size_t>(operand.tensor)][static_cast<size_t>(k)], "segment \"",
              segment.name, "\", iteration ", iteration, ", op \"", op.name, "\": slice ", k,
              " of \"", program_.at(operand.tensor).name, "\" is read before it is written");
      }
    }
    for (const Operand& operand : op.outputs) {
      if (!is_carried(operand)) continue;
      for (int64_t k = first_slice(operand, iteration); k < end_slice(operand, iteration); ++k) {
        written_[static_cast<size_t>(operand.tensor)][static_cast<size_t>(k)] = true;
      }
    }
  }

  int64_t first_slice(const Operand& operand, int64_t iteration) const {
    return range_of(program_, operand, iteration).begin / program_.at(operand.tensor).slice_bytes();
  }
  int64_t end_slice(const Operand& operand, int64_t iteration) const {
    const ByteRange range = range_of(program_, operand, iteration);
    return (range.begin + range.size) / program_.at(operand.tensor).slice_bytes();
  }

  bool is_local(const Operand& operand) const {
    return program_.at(operand.tensor).extent == Extent::local;
  }
  bool is_carried(const Operand& operand) const {
    const Tensor& tensor = program_.at(operand.tensor);
    return tensor.extent == Extent::step || tensor.space == Space::host;
  }

  void expect(bool holds, int s, const Op& op, const Operand& operand, const char* wrong) const {
    check(holds, "segment \"", program_.segments[static_cast<size_t>(s)].name, "\", op \"", op.name,
          "\": local tensor \"", program_.at(operand.tensor).name, "\" ", wrong);
  }

  const Program& program_;
  Stage stage_;
  std::vector<int> home_;                   // segment that writes a local tensor, -1 before that
  std::vector<std::vector<bool>> written_;  // per tensor and slice
};

}  // namespace

void verify_dataflow(const Program& program, Stage stage) { Dataflow(program, stage).run(); }

}  // namespace spillway
