// Which ops of a body move to another iteration, and how values reach across.
#include "offload/rotation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "harness/error.h"
#include "harness/ops.h"

namespace spillway {

namespace {

template <class Visit>
void for_each_operand(Op& op, const Visit& visit) {
  std::for_each(op.inputs.begin(), op.inputs.end(), visit);
  std::for_each(op.outputs.begin(), op.outputs.end(), visit);
}

// Who writes and reads the tensors of a body, one entry a tensor of the program.
class BodyTable {
 public:
  BodyTable(const Program& program, const Segment& segment)
      : segment_(segment),
        writer_(program.tensors.size(), -1),
        readers_(program.tensors.size()),
        slice_writers_(program.tensors.size()) {
    for (size_t i = 0; i < segment.ops.size(); ++i) {
      const Op& op = segment.ops[i];
      for (const Operand& output : op.outputs) {
        int& writer = writer_[index_of(output.tensor)];
        if (writer < 0) writer = static_cast<int>(i);
      }
      for (const Operand& input : op.inputs) {
        readers_[index_of(input.tensor)] += 1;
        slice_writers_[index_of(input.tensor)] += op.kind == OpKind::write_slice ? 1 : 0;
      }
    }
  }

  int writer(TensorId id) const { return writer_[index_of(id)]; }

  // Reads nothing that the body writes, so it may run iterations ahead. A gather's shard may be cut
  // out of the stack by an op of its own, which then moves along.
  bool prefetchable(const Op& op) const {
    return std::all_of(op.inputs.begin(), op.inputs.end(), [&](const Operand& input) {
      if (writer(input.tensor) < 0) return true;
      const Op& from = segment_.ops[index_of(writer(input.tensor))];
      return op.kind == OpKind::all_gather && from.kind == OpKind::slice_cast && prefetchable(from);
    });
  }

  // Nothing in the body waits for its result but the write into the stacked gradient.
  bool drainable(const Op& op) const {
    return std::all_of(op.outputs.begin(), op.outputs.end(), [&](const Operand& output) {
      const size_t id = index_of(output.tensor);
      return readers_[id] == (op.kind == OpKind::reduce_scatter ? slice_writers_[id] : 0);
    });
  }

 private:
  const Segment& segment_;
  std::vector<int> writer_;                   // the first op, -1: none
  std::vector<int> readers_, slice_writers_;  // operands that read it; of them write_slice's
};

int stage_of(const BodyTable& table, const Op& op, int depth, const PipelineOptions& options) {
  switch (op.kind) {
    case OpKind::copy_d2h:
      return options.host_copies && table.drainable(op) ? depth : stage_body;
    case OpKind::copy_h2d:
      return options.host_copies && table.prefetchable(op) ? -depth : stage_body;
    case OpKind::all_gather:
      return options.collectives && table.prefetchable(op) ? -1 : stage_body;
    case OpKind::reduce_scatter:
      return options.collectives && table.drainable(op) ? 1 : stage_body;
    default:
      return stage_body;
  }
}

// A local tensor like `of`, for copies between iterations.
Operand add_buffer(Program& program, const std::string& name, const Tensor& of) {
  Tensor buffer{.name = name,
                .shape = of.shape,
                .dtype = of.dtype,
                .role = Role::in_flight,
                .ragged = of.ragged,
                .activations = {}};
  return {program.add(std::move(buffer)), Index::all()};
}

Op device_copy(std::string name, const Operand& from, const Operand& to, const Op& host_copy) {
  Op copy{.kind = OpKind::copy_d2d,
          .name = std::move(name),
          .inputs = {from},
          .outputs = {to},
          .attributes = {}};
  copy.attributes.activation = host_copy.attributes.activation;
  return copy;
}

std::string after_dot(const std::string& name) { return name.substr(name.find('.')); }

// Where an op stands in a rotated body.
enum Place : uint8_t { drains, prefetches, body, shard_writes, landings, place_count };

struct PlacedOp {
  Op op;
  int stage = stage_body;
  Place place = body;
};

Place place_of(const Op& op, int stage) {
  if (stage == stage_body) return body;
  if (stage < stage_body) return prefetches;
  return op.kind == OpKind::write_slice ? shard_writes : drains;
}

// XLA's rotation carries a value in one slot, by copies. Writing: the body's value -> carried, after
// the host copy of the carried one has its own (the update of a loop parameter is copied before it
// leaves); an unrolled loop needs no copy into the slot. Reading: landing -> carried, after the body's
// last reader of it.
class RotationCopies {
 public:
  RotationCopies(Program& program, const Segment& segment, const PipelineOptions& options,
                 std::vector<PlacedOp>& placed)
      : program_(program), loop_(segment.name), options_(options), placed_(placed) {}

  // Adds a rotated host copy with the device copies it needs; returns the tensor that is carried.
  TensorId add(Op op, int stage) {
    return op.kind == OpKind::copy_d2h ? out(op, stage) : in(op, stage);
  }

 private:
  TensorId out(Op& op, int stage) {
    const Operand value = op.inputs[0];
    const std::string name = loop_ + "." + program_.at(value.tensor).name;
    Operand carried = value;
    if (options_.unroll == 1) {
      carried = add_buffer(program_, name + ".carried", program_.at(value.tensor));
      placed_.push_back(
          {device_copy("carry" + after_dot(op.name), value, carried, op), stage_body, landings});
    }
    op.inputs[0] = add_buffer(program_, name + ".staging", program_.at(value.tensor));
    placed_.push_back(
        {device_copy("d2d" + after_dot(op.name), carried, op.inputs[0], op), stage, drains});
    placed_.push_back({std::move(op), stage, drains});
    return carried.tensor;
  }

  TensorId in(Op& op, int stage) {
    const Operand carried = op.outputs[0];
    const std::string name = loop_ + "." + program_.at(carried.tensor).name;
    op.outputs[0] = add_buffer(program_, name + ".staging", program_.at(carried.tensor));
    Op copy = device_copy("d2d" + after_dot(op.name), op.outputs[0], carried, op);
    // A landing in a single slot overwrites what the body still reads.
    placed_.push_back({std::move(op), stage, landings});
    placed_.push_back({std::move(copy), stage, landings});
    return carried.tensor;
  }

  Program& program_;
  const std::string& loop_;
  const PipelineOptions& options_;
  std::vector<PlacedOp>& placed_;
};

// The body's ops with their places, and rotation copies beside the host copies they serve.
// `copied`, by tensor, marks what a rotation copy carries. In an unrolled loop what comes
// back needs none: two slots are used in turn, each by its own half of the body.
std::vector<PlacedOp> place_ops(Program& program, Segment& segment, const std::vector<int>& stages,
                                const PipelineOptions& options, std::vector<bool>& copied) {
  std::vector<PlacedOp> placed;
  placed.reserve(segment.ops.size());
  RotationCopies copies(program, segment, options, placed);
  for (size_t i = 0; i < segment.ops.size(); ++i) {
    Op& op = segment.ops[i];
    const bool out = op.kind == OpKind::copy_d2h;
    const bool by_copy = options.rotation_copies && is_host_copy(op) && stages[i] != stage_body &&
                         (out || options.unroll == 1);
    if (!by_copy) {
      const Place place = place_of(op, stages[i]);
      placed.push_back({std::move(op), stages[i], place});
      continue;
    }
    const auto carried = index_of(copies.add(std::move(op), stages[i]));
    copied.resize(program.tensors.size());
    copied[carried] = true;
  }
  return placed;
}

void order_body(std::vector<PlacedOp> placed, Segment& segment, std::vector<int>& stages) {
  segment.ops.clear();
  stages.clear();
  for (int place = 0; place < place_count; ++place) {
    for (PlacedOp& op : placed) {
      if (op.place != place) continue;
      segment.ops.push_back(std::move(op.op));
      stages.push_back(op.stage);
    }
  }
}

// The first and last stage that touch a tensor.
struct Crossing {
  int first = 0, last = 0;
  bool touched = false;
  int distance() const { return last - first; }
};

std::vector<Crossing> crossings(const Program& program, std::vector<PlacedOp>& placed) {
  std::vector<Crossing> found(program.tensors.size());
  for (PlacedOp& at : placed) {
    for_each_operand(at.op, [&](const Operand& operand) {
      Crossing& crossing = found[index_of(operand.tensor)];
      crossing = {crossing.touched ? std::min(crossing.first, at.stage) : at.stage,
                  crossing.touched ? std::max(crossing.last, at.stage) : at.stage, true};
    });
  }
  return found;
}

}  // namespace

std::vector<int> choose_stages(const Program& program, const Segment& segment,
                               const PipelineOptions& options) {
  const BodyTable table(program, segment);
  const int depth = static_cast<int>(std::min(options.depth, segment.trips));
  std::vector<int> stages;
  stages.reserve(segment.ops.size());
  for (const Op& op : segment.ops)
    stages.push_back(stage_of(table, op, depth, options));
  for (size_t i = 0; i < segment.ops.size(); ++i) {  // what moves along with a collective
    const Op& op = segment.ops[i];
    if (op.inputs.empty()) continue;
    const int writer = table.writer(op.inputs[0].tensor);
    if (writer < 0) continue;
    const bool drained = segment.ops[index_of(writer)].kind == OpKind::reduce_scatter &&
                         stages[index_of(writer)] > stage_body;
    if (op.kind == OpKind::all_gather && stages[i] < stage_body)
      stages[index_of(writer)] = stages[i];
    if (op.kind == OpKind::write_slice && drained) stages[i] = stages[index_of(writer)];
  }
  return stages;
}

void carry_across_stages(Program& program, Segment& segment, std::vector<int>& stages,
                         const PipelineOptions& options) {
  check(!options.rotation_copies || options.depth == 1,
        "rotation copies exist for a depth of 1 only");
  std::vector<bool> copied(program.tensors.size());
  std::vector<PlacedOp> placed = place_ops(program, segment, stages, options, copied);
  const std::vector<Crossing> found = crossings(program, placed);
  copied.resize(found.size());
  std::vector<bool> ring(found.size());
  for (size_t id = 0; id < found.size(); ++id) {
    Tensor& tensor = program.tensors[id];
    const int64_t distance = found[id].distance();
    if (distance == 0) continue;
    if (tensor.extent == Extent::local && copied[id]) {
      tensor.extent = Extent::step;  // one slot, updated after its last reader
    } else if (tensor.extent == Extent::local) {
      ring[id] = tensor.ring = true;
      tensor.extent = Extent::step;
      tensor.slices = std::min(distance + 1, segment.trips);
    } else if (tensor.extent == Extent::step && tensor.ring && !copied[id]) {
      tensor.slices += distance;
    }
  }
  for (PlacedOp& at : placed) {
    for_each_operand(at.op, [&](Operand& operand) {
      if (ring[index_of(operand.tensor)]) operand.index = Index::at(1, 0);
    });
  }
  order_body(std::move(placed), segment, stages);
}

}  // namespace spillway
