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
        first_(program.tensors.size(), 0) {
    size_t slices = 0;
    for (size_t id = 0; id < first_.size(); ++id) {
      first_[id] = slices;
      if (is_carried(program.tensors[id]))
        slices += static_cast<size_t>(program.tensors[id].slices);
    }
    written_.resize(slices, 0);
  }

  void run() {
    for (size_t s = 0; s < program_.segments.size(); ++s) {
      const Segment& segment = program_.segments[s];
      for (const Op& op : segment.ops)
        visit_locals(static_cast<int>(s), op);
      std::vector<Access> accesses = carried_accesses(segment);
      for (int64_t i = 0; i < segment.trips; ++i) {
        for (Access& access : accesses) {
          visit_carried(segment, access, i);
          access.advance();
        }
      }
    }
  }

 private:
  // An operand of which slices matter: a body has few of them, but runs once a layer.
  struct Access {
    const Op* op;
    const Tensor* tensor;
    uint8_t* written;  // of the tensor's slices
    bool writes;
    int64_t slice, slices;  // from which on, and how many, in the iteration under way
    int64_t step;           // to the next iteration; in a ring less than its slots

    void advance() {
      slice += step;
      if (tensor->ring && slice >= tensor->slices) slice -= tensor->slices;
    }
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
  std::vector<Access> carried_accesses(const Segment& segment) {
    std::vector<Access> accesses;
    for (const Op& op : segment.ops) {
      for (const Operand& operand : op.inputs)
        if (is_carried(program_.at(operand.tensor))) accesses.push_back(access(op, operand, false));
      for (const Operand& operand : op.outputs)
        if (is_carried(program_.at(operand.tensor))) accesses.push_back(access(op, operand, true));
    }
    return accesses;
  }

  Access access(const Op& op, const Operand& operand, bool writes) {
    const Tensor& tensor = program_.at(operand.tensor);
    const Index& index = operand.index;
    uint8_t* const written = written_.data() + first_[static_cast<size_t>(operand.tensor)];
    if (index.whole) return {&op, &tensor, written, writes, 0, tensor.slices, 0};
    int64_t step = index.stride;
    if (tensor.ring) step = (step % tensor.slices + tensor.slices) % tensor.slices;
    return {&op, &tensor, written, writes, slice_of(tensor, index, 0), 1, step};
  }

  // Step tensors and host slots: every slice that is read was written earlier in the step.
  static void visit_carried(const Segment& segment, const Access& access, int64_t iteration) {
    for (int64_t k = access.slice; k < access.slice + access.slices; ++k) {
      if (access.writes)
        access.written[k] = 1;
      else if (access.written[k] == 0)
        check(false, "segment \"", segment.name, "\", iteration ", iteration, ", op \"",
              access.op->name, "\": slice ", k, " of \"", access.tensor->name,
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
  std::vector<int> home_;         // segment that writes a local tensor, -1 before that
  std::vector<size_t> first_;     // of a carried tensor's slices in written_
  std::vector<uint8_t> written_;  // per slice of the carried tensors
};

}  // namespace

void verify_dataflow(const Program& program, Stage stage) { Dataflow(program, stage).run(); }

}  // namespace spillway
