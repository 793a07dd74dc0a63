// Part of verify(): every value is written before it is read, by one producer, where it may be.
#include <algorithm>

#include "harness/error.h"
#include "harness/operands.h"
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
    for (size_t id = 0; id < written_.size(); ++id)
      if (is_carried(program.tensors[id]))
        written_[id].resize(static_cast<size_t>(program.tensors[id].slices));
  }

  void run() {
    for (size_t s = 0; s < program_.segments.size(); ++s) {
      const Segment& segment = program_.segments[s];
      for (const Op& op : segment.ops)
        visit_locals(static_cast<int>(s), op);
      const std::vector<Access> accesses = carried_accesses(segment);
      for (int64_t i = 0; i < segment.trips; ++i) {
        for (const Access& access : accesses)
          visit_carried(segment, access, i);
      }
    }
  }

 private:
  // An operand of which slices matter: a body has few of them, and runs once a layer.
  struct Access {
    const Op* op;
    const Operand* operand;
    bool writes;
  };

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

  // In the order of the ops, of each what it reads before what it writes.
  std::vector<Access> carried_accesses(const Segment& segment) const {
    std::vector<Access> accesses;
    for (const Op& op : segment.ops) {
      for (const Operand& operand : op.inputs)
        if (is_carried(program_.at(operand.tensor))) accesses.push_back({&op, &operand, false});
      for (const Operand& operand : op.outputs)
        if (is_carried(program_.at(operand.tensor))) accesses.push_back({&op, &operand, true});
    }
    return accesses;
  }

  // Step tensors and host slots: every slice that is read was written earlier in the step.
  void visit_carried(const Segment& segment, const Access& access, int64_t iteration) {
    const Tensor& tensor = program_.at(access.operand->tensor);
    std::vector<bool>& written = written_[static_cast<size_t>(access.operand->tensor)];
    const Index& index = access.operand->index;
    const int64_t begin = index.whole ? 0 : slice_of(tensor, index, iteration);
    const int64_t end = index.whole ? tensor.slices : begin + 1;
    for (int64_t k = begin; k < end; ++k) {
      if (access.writes) {
        written[static_cast<size_t>(k)] = true;
        continue;
      }
      check(written[static_cast<size_t>(k)], "segment \"", segment.name, "\", iteration ",
            iteration, ", op \"", access.op->name, "\": slice ", k, " of \"", tensor.name,
            "\" is read before it is written");
    }
  }

  bool is_local(const Operand& operand) const {
    return program_.at(operand.tensor).extent == Extent::local;
  }
  static bool is_carried(const Tensor& tensor) {
    return tensor.extent == Extent::step || tensor.space == Space::host;
  }

  void expect(bool holds, int s, const Op& op, const Operand& operand, const char* wrong) const {
    check(holds, "segment \"", program_.segments[static_cast<size_t>(s)].name, "\", op \"", op.name,
          "\": local tensor \"", program_.at(operand.tensor).name, "\" ", wrong);
  }

  const Program& program_;
  Stage stage_;
  std::vector<int> home_;                   // segment that writes a local tensor, -1 before that
  std::vector<std::vector<bool>> written_;  // per carried tensor and slice
};

}  // namespace

void verify_dataflow(const Program& program, Stage stage) { Dataflow(program, stage).run(); }

}  // namespace spillway
