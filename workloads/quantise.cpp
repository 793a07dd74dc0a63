// One body after the other: which copies exist, and what makes them stale.
#include "workloads/quantise.h"

#include <algorithm>
#include <set>
#include <vector>

#include "harness/error.h"
#include "harness/ops.h"
#include "harness/ops/quantised.h"

namespace spillway {
namespace {

// Written here by the backward pass itself: not fetched, gathered or computed again.
std::set<TensorId> gradients_of(const Segment& segment) {
  std::set<TensorId> gradients;
  if (segment.pass != Pass::backward) return gradients;
  for (const Op& op : segment.ops)
    if (lane_of(op) == Lane::compute && !op.recomputed && op.kind != OpKind::slice_cast)
      for (const Operand& output : op.outputs)
        gradients.insert(output.tensor);
  return gradients;
}

class BodyQuantiser {
 public:
  BodyQuantiser(Program& program, Segment& segment)
      : program_(program), segment_(segment), gradients_(gradients_of(segment)) {}

  void run() {
    std::vector<Op> before = std::move(segment_.ops);
    segment_.ops.clear();
    segment_.ops.reserve(2 * before.size());
    for (Op& op : before) {
      if (runs_narrow(op))
        for (size_t i = 0; i < 2; ++i)
          op.inputs[i] = copy_of(op, i);
      for (const Operand& output : op.outputs)
        std::erase_if(copies_, [&](const Copy& copy) { return copy.of.tensor == output.tensor; });
      segment_.ops.push_back(std::move(op));
    }
  }

 private:
  struct Copy {
    Operand of;
    DType format;
    TensorId tensor;
    size_t op;  // that makes it
  };

  DType format_of(const Op& op, size_t i) const {
    if (op.attributes.precision == Precision::nvfp4)
      return sums_rows(op, i) ? DType::nvfp4_rows : DType::nvfp4;
    return gradients_.contains(op.inputs[i].tensor) ? DType::e5m2 : DType::e4m3;
  }

  Operand copy_of(Op& op, size_t i) {
    const Operand source = op.inputs[i];
    const DType format = format_of(op, i);
    auto copy = std::find_if(copies_.begin(), copies_.end(),
                             [&](const Copy& c) { return c.of == source && c.format == format; });
    if (copy == copies_.end()) {
      copies_.push_back({source, format, add_copy(source, format), segment_.ops.size() - 1});
      copy = copies_.end() - 1;
      op.attributes.quantised_bytes += range_of(program_, source, 0).size;
    }
    // Done again only where every reader is.
    segment_.ops[copy->op].recomputed &= op.recomputed;
    return {copy->tensor, Index::all()};
  }

  TensorId add_copy(const Operand& source, DType format) {
    const Tensor& from = program_.at(source.tensor);
    const std::string name = text(from.name, ".", name_of(format), ".", made_++);
    const bool weight = from.role == Role::gathered_weight || from.role == Role::parameter;
    Tensor copy;
    copy.name = text(segment_.name, ".", name);
    copy.shape = from.shape;
    copy.dtype = format;
    copy.role = weight ? Role::gathered_weight : Role::activation;
    copy.ragged = from.ragged;
    const TensorId made = program_.add(std::move(copy));
    Op op;
    op.kind = OpKind::quantise;
    op.name = text("quantise ", name);
    op.inputs = {source};
    op.outputs = {{made, Index::all()}};
    op.recomputed = true;
    segment_.ops.push_back(std::move(op));
    return made;
  }

  Program& program_;
  Segment& segment_;
  const std::set<TensorId> gradients_;
  std::vector<Copy> copies_;
  int made_ = 0;
};

}  // namespace

Program quantise_operands(Program program) {
  for (Segment& segment : program.segments)
    BodyQuantiser(program, segment).run();
  return program;
}

}  // namespace spillway
