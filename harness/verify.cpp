// The rules of a well-formed Program, as tables: one sentence and one predicate each. Which values
// flow where is in dataflow.cpp.
#include "harness/verify.h"

#include <bit>
#include <string_view>
#include <vector>

#include "harness/error.h"
#include "harness/operands.h"
#include "harness/ops.h"

namespace spillway {
namespace {

// Names seen so far, in a table of slots that is at most half full. They must outlive it.
class Names {
 public:
  explicit Names(size_t most) : slots_(std::bit_ceil(2 * most + 1)) {}

  bool is_new(std::string_view name) {
    size_t at = std::hash<std::string_view>{}(name);
    for (;; ++at) {
      std::string_view& slot = slots_[at & (slots_.size() - 1)];
      if (slot == name) return false;
      if (!slot.empty()) continue;
      slot = name;
      return true;
    }
  }

 private:
  std::vector<std::string_view> slots_;  // empty: free; a name is not empty
};

struct TensorRule {
  const char* sentence;
  bool (*holds)(const Program&, const Tensor&);
};

bool has_positive_sizes(const Program&, const Tensor& tensor) {
  for (const int64_t extent : tensor.shape) {
    if (extent < 1) return false;
  }
  return tensor.slices >= 1;
}

bool has_legal_source(const Program& program, const Tensor& tensor) {
  if (tensor.init_from == no_tensor) return true;
  if (tensor.init_from < 0 || tensor.init_from >= static_cast<TensorId>(program.tensors.size())) {
    return false;
  }
  const Tensor& source = program.at(tensor.init_from);
  return tensor.extent == Extent::persistent && source.extent == Extent::persistent &&
         source.slices * source.slice_elements() == tensor.slices * tensor.slice_elements();
}

constexpr TensorRule tensor_rules[] = {
    {"has a name", [](const Program&, const Tensor& t) { return !t.name.empty(); }},
    {"has positive sizes", has_positive_sizes},
    {"has one slice and no ring if it is local",
     [](const Program&, const Tensor& t) {
       return t.extent != Extent::local || (t.slices == 1 && !t.ring);
     }},
    {"is on the device if it is local",
     [](const Program&, const Tensor& t) {
       return t.extent != Extent::local || t.space == Space::device;
     }},
    {"is persistent if it is filled before step 0",
     [](const Program&, const Tensor& t) {
       return t.init == Init::none || t.extent == Extent::persistent;
     }},
    {"is converted from a persistent tensor of as many elements", has_legal_source},
};

struct OperandRule {
  const char* sentence;
  bool (*holds)(const Program&, const Segment&, const Op&, const Operand&, bool output);
};

bool exists(const Program& program, const Segment&, const Op&, const Operand& operand, bool) {
  return operand.tensor >= 0 && operand.tensor < static_cast<TensorId>(program.tensors.size());
}

// Affine in the iteration: the first and the last are the extremes.
bool is_in_range(const Program& program, const Segment& segment, const Op&, const Operand& operand,
                 bool) {
  const Tensor& tensor = program.at(operand.tensor);
  if (operand.index.whole || tensor.ring) return true;
  const int64_t first = operand.index.offset;
  const int64_t last = first + operand.index.stride * (segment.trips - 1);
  return std::min(first, last) >= 0 && std::max(first, last) < tensor.slices;
}

bool is_in_legal_space(const Program& program, const Segment&, const Op& op, const Operand& operand,
                       bool output) {
  const bool on_host =
      (op.kind == OpKind::copy_d2h && output) || (op.kind == OpKind::copy_h2d && !output);
  return program.at(operand.tensor).space == (on_host ? Space::host : Space::device);
}

constexpr OperandRule operand_rules[] = {
    {"names a tensor", exists},
    {"is a slice the tensor has, in every iteration", is_in_range},
    {"is in the memory the op works on", is_in_legal_space},
};

struct OpRule {
  const char* sentence;
  bool (*holds)(const Program&, const Segment&, const Op&);
};

bool outputs_are_disjoint(const Program& program, const Segment& segment, const Op& op) {
  for (size_t a = 0; a < op.outputs.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (may_overlap(program, op.outputs[a], op.outputs[b], segment.trips)) return false;
    }
  }
  return true;
}

bool updates_are_in_place(const Program& program, const Segment& segment, const Op& op) {
  for (const Operand& input : op.inputs) {
    for (const Operand& output : op.outputs) {
      if (!may_overlap(program, input, output, segment.trips)) continue;
      for (const int64_t i : {int64_t{0}, segment.trips - 1}) {
        const ByteRange read = range_of(program, input, i), written = range_of(program, output, i);
        if (read.begin != written.begin || read.size != written.size) return false;
      }
    }
  }
  return true;
}

constexpr OpRule op_rules[] = {
    {"has a name", [](const Program&, const Segment&, const Op& op) { return !op.name.empty(); }},
    {"writes something",
     [](const Program&, const Segment&, const Op& op) { return !op.outputs.empty(); }},
    {"has outputs that share no slice", outputs_are_disjoint},
    {"updates in place exactly the slice it reads", updates_are_in_place},
};

void verify_tensors(const Program& program) {
  Names names(program.tensors.size());
  for (const Tensor& tensor : program.tensors) {
    for (const TensorRule& rule : tensor_rules) {
      check(rule.holds(program, tensor), "tensor \"", tensor.name, "\": expected that it ",
            rule.sentence);
    }
    check(names.is_new(tensor.name), "tensor \"", tensor.name, "\" exists twice");
  }
  if (program.loss == no_tensor) return;
  const Tensor& loss = program.at(program.loss);
  check(loss.dtype == DType::f32 && loss.slice_elements() == 1 && loss.slices == 1,
        "loss tensor \"", loss.name, "\": expected one f32 element");
}

void verify_operands(const Program& program, const Segment& segment, const Op& op, bool output) {
  const std::vector<Operand>& operands = output ? op.outputs : op.inputs;
  for (size_t k = 0; k < operands.size(); ++k) {
    for (const OperandRule& rule : operand_rules) {
      if (rule.holds(program, segment, op, operands[k], output)) continue;
      const bool named = exists(program, segment, op, operands[k], output);
      check(false, "segment \"", segment.name, "\", op \"", op.name, "\", ",
            output ? "output " : "input ", k, " (",
            named ? program.at(operands[k].tensor).name : std::string("no tensor"),
            "): expected that it ", rule.sentence);
    }
  }
}

void verify_op(const Program& program, const Segment& segment, const Op& op) {
  verify_operands(program, segment, op, false);
  verify_operands(program, segment, op, true);
  for (const OpRule& rule : op_rules) {
    check(rule.holds(program, segment, op), "segment \"", segment.name, "\", op \"", op.name,
          "\": expected that it ", rule.sentence);
  }
  const std::string wrong = info(op.kind).check(program, op);
  check(wrong.empty(), "segment \"", segment.name, "\", op \"", op.name, "\" (", info(op.kind).name,
        "): ", wrong);
}

void verify_segment(const Program& program, size_t s) {
  const Segment& segment = program.segments[s];
  check(!segment.name.empty() && segment.trips >= 1, "segment ", s, " \"", segment.name,
        "\": expected a name and at least one trip, found ", segment.trips);
  const int forward = segment.forward_segment;
  check(forward >= -1 && forward < static_cast<int>(s), "segment \"", segment.name,
        "\": its forward segment ", forward, " does not come before it");
  if (forward >= 0) {
    const Segment& other = program.segments[static_cast<size_t>(forward)];
    check(other.trips == segment.trips, "segment \"", segment.name, "\" has ", segment.trips,
          " trips, its forward segment \"", other.name, "\" ", other.trips);
  }
  Names names(segment.ops.size());
  for (const Op& op : segment.ops) {
    verify_op(program, segment, op);
    check(names.is_new(op.name), "segment \"", segment.name, "\": op \"", op.name,
          "\" exists twice");
  }
}

}  // namespace

void verify(const Program& program, Stage stage) {
  verify_tensors(program);
  Names names(program.segments.size());
  for (size_t s = 0; s < program.segments.size(); ++s) {
    verify_segment(program, s);
    check(names.is_new(program.segments[s].name), "segment \"", program.segments[s].name,
          "\" exists twice");
  }
  verify_dataflow(program, stage);
}

}  // namespace spillway
