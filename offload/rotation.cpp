// Which ops of a body move to another iteration, and how values reach across.
#include "offload/rotation.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "harness/error.h"
#include "harness/ops.h"

namespace spillway {

namespace {

bool writes(const Op& op, TensorId id) {
  return std::any_of(op.outputs.begin(), op.outputs.end(),
                     [&](const Operand& output) { return output.tensor == id; });
}

bool reads(const Op& op, TensorId id) {
  return std::any_of(op.inputs.begin(), op.inputs.end(),
                     [&](const Operand& input) { return input.tensor == id; });
}

int writer_of(const Segment& segment, TensorId id) {
  for (size_t i = 0; i < segment.ops.size(); ++i) {
    if (writes(segment.ops[i], id)) return static_cast<int>(i);
  }
  return -1;
}

// Reads nothing that the body writes, so it may run an iteration ahead. A gather's shard may be cut
// out of the stack by an op of its own, which then moves along.
bool prefetchable(const Segment& segment, const Op& op) {
  return std::all_of(op.inputs.begin(), op.inputs.end(), [&](const Operand& input) {
    const int writer = writer_of(segment, input.tensor);
    if (writer < 0) return true;
    const Op& from = segment.ops[static_cast<size_t>(writer)];
    return op.kind == OpKind::all_gather && from.kind == OpKind::slice_cast &&
           prefetchable(segment, from);
  });
}

// Nothing in the body waits for its result but the write into the stacked gradient.
bool drainable(const Segment& segment, const Op& op) {
  return std::all_of(segment.ops.begin(), segment.ops.end(), [&](const Op& reader) {
    const bool uses = std::any_of(op.outputs.begin(), op.outputs.end(), [&](const Operand& output) {
      return reads(reader, output.tensor);
    });
    return !uses || (op.kind == OpKind::reduce_scatter && reader.kind == OpKind::write_slice);
  });
}

int stage_of(const Segment& segment, const Op& op, const PipelineOptions& options) {
  switch (op.kind) {
    case OpKind::copy_d2h:
      return options.host_copies && drainable(segment, op) ? stage_drain : stage_body;
    case OpKind::copy_h2d:
      return options.host_copies && prefetchable(segment, op) ? stage_prefetch : stage_body;
    case OpKind::all_gather:
      return options.collectives && prefetchable(segment, op) ? stage_prefetch : stage_body;
    case OpKind::reduce_scatter:
      return options.collectives && drainable(segment, op) ? stage_drain : stage_body;
    default:
      return stage_body;
  }
}

// The first and last stage that touch a tensor.
struct Crossing {
  int first = stage_drain, last = stage_prefetch;
  int distance() const { return last - first; }
};

std::map<TensorId, Crossing> crossings(const Segment& segment, const std::vector<int>& stages) {
  std::map<TensorId, Crossing> found;
  for (size_t i = 0; i < segment.ops.size(); ++i) {
    const auto touch = [&](const Operand& operand) {
      Crossing& crossing = found[operand.tensor];
      crossing.first = std::min(crossing.first, stages[i]);
      crossing.last = std::max(crossing.last, stages[i]);
    };
    std::for_each(segment.ops[i].inputs.begin(), segment.ops[i].inputs.end(), touch);
    std::for_each(segment.ops[i].outputs.begin(), segment.ops[i].outputs.end(), touch);
  }
  return found;
}

void make_ring(Program& program, Segment& segment, TensorId id, int64_t slots) {
  program.at(id).extent = Extent::step;
  program.at(id).slices = slots;
  program.at(id).ring = true;
  const auto index = [&](Operand& operand) {
    if (operand.tensor == id) operand.index = Index::at(1, 0);
  };
  for (Op& op : segment.ops) {
    std::for_each(op.inputs.begin(), op.inputs.end(), index);
    std::for_each(op.outputs.begin(), op.outputs.end(), index);
  }
}

// XLA's rotation: the carried value has one slot, and the host copy works on a staging buffer.
// Forward: carried -> staging before the body replaces it. Backward: staging -> carried after the
// body's last reader. Returns the copy; `op`, a host copy, is redirected to the staging buffer.
Op add_rotation_copy(Program& program, const Segment& segment, Op& op) {
  const bool out = op.kind == OpKind::copy_d2h;
  Operand& device = out ? op.inputs[0] : op.outputs[0];
  const Tensor& carried = program.at(device.tensor);
  Tensor staging{.name = segment.name + "." + carried.name + ".staging",
                 .shape = carried.shape,
                 .dtype = carried.dtype,
                 .role = Role::in_flight,
                 .ragged = carried.ragged,
                 .activations = {}};
  const Operand buffer{program.add(std::move(staging)), Index::all()};
  Op copy{.kind = OpKind::copy_d2d,
          .name = "d2d" + op.name.substr(op.name.find('.')),
          .inputs = {out ? device : buffer},
          .outputs = {out ? buffer : device},
          .attributes = {}};
  copy.attributes.activation = op.attributes.activation;
  device = buffer;
  return copy;
}

void insert_rotation_copies(Program& program, Segment& segment, std::vector<int>& stages) {
  std::vector<Op> ops;
  std::vector<int> new_stages;
  for (size_t i = 0; i < segment.ops.size(); ++i) {
    Op op = segment.ops[i];
    const bool rotated = is_host_copy(op) && stages[i] != stage_body;
    const bool out = op.kind == OpKind::copy_d2h;
    std::vector<Op> pair{op};
    if (rotated) {
      const Op copy = add_rotation_copy(program, segment, op);
      pair = out ? std::vector<Op>{copy, op} : std::vector<Op>{op, copy};
    }
    ops.insert(ops.end(), pair.begin(), pair.end());
    new_stages.insert(new_stages.end(), pair.size(), stages[i]);
  }
  segment.ops = std::move(ops);
  stages = std::move(new_stages);
}

// A prefetch that lands in a single slot overwrites what the body still reads.
bool lands_in_single_slot(const Program& program, const Segment& segment, const Op& op) {
  if (op.kind == OpKind::copy_d2d) return true;
  if (op.kind != OpKind::copy_h2d || program.at(op.outputs[0].tensor).ring) return false;
  return std::any_of(segment.ops.begin(), segment.ops.end(), [&](const Op& reader) {
    return reader.kind == OpKind::copy_d2d && reads(reader, op.outputs[0].tensor);
  });
}

int place_of(const Program& program, const Segment& segment, const Op& op, int stage) {
  if (stage == stage_body) return 2;
  if (stage == stage_drain) return op.kind == OpKind::write_slice ? 3 : 0;
  return lands_in_single_slot(program, segment, op) ? 4 : 1;
}

void order_body(const Program& program, Segment& segment, std::vector<int>& stages) {
  std::vector<size_t> order(segment.ops.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return place_of(program, segment, segment.ops[a], stages[a]) <
           place_of(program, segment, segment.ops[b], stages[b]);
  });
  std::vector<Op> ops;
  std::vector<int> ordered;
  for (size_t i : order) {
    ops.push_back(segment.ops[i]);
    ordered.push_back(stages[i]);
  }
  segment.ops = std::move(ops);
  stages = std::move(ordered);
}

}  // namespace

std::vector<int> choose_stages(const Program&, const Segment& segment,
                               const PipelineOptions& options) {
  std::vector<int> stages;
  for (const Op& op : segment.ops)
    stages.push_back(stage_of(segment, op, options));
  for (size_t i = 0; i < segment.ops.size(); ++i) {
    for (size_t j = 0; j < segment.ops.size(); ++j) {  // what moves along with a collective
      const Op& op = segment.ops[i];
      const bool feeds = op.kind == OpKind::all_gather && stages[i] == stage_prefetch &&
                         writes(segment.ops[j], op.inputs[0].tensor);
      const bool takes = op.kind == OpKind::reduce_scatter && stages[i] == stage_drain &&
                         reads(segment.ops[j], op.outputs[0].tensor);
      if (feeds || takes) stages[j] = stages[i];
    }
  }
  return stages;
}

void carry_across_stages(Program& program, Segment& segment, std::vector<int>& stages,
                         const PipelineOptions& options) {
  if (options.rotation_copies) insert_rotation_copies(program, segment, stages);
  for (const auto& [id, crossing] : crossings(segment, stages)) {
    Tensor& tensor = program.at(id);
    if (crossing.distance() == 0) continue;
    const bool copied = std::any_of(segment.ops.begin(), segment.ops.end(), [&](const Op& op) {
      return op.kind == OpKind::copy_d2d && (reads(op, id) || writes(op, id));
    });
    if (tensor.extent == Extent::local && options.rotation_copies && copied) {
      tensor.extent = Extent::step;  // one slot, updated after its last reader
    } else if (tensor.extent == Extent::local) {
      make_ring(program, segment, id, crossing.distance() + 1);
    } else if (tensor.extent == Extent::step && tensor.ring && !copied) {
      tensor.slices += crossing.distance();
    }
  }
  order_body(program, segment, stages);
}

}  // namespace spillway
