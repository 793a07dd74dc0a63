// Symbolic execution of programs and schedules; see interpreter.h.
#include "tests/support/interpreter.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "harness/error.h"

namespace spillway {

namespace {

constexpr uint64_t undefined = 0;

uint64_t mixed(uint64_t hash, uint64_t value) {  // splitmix64's finaliser over the running hash
  uint64_t x = hash * 0x9e3779b97f4a7c15u + value + 0x7f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return x == undefined ? 1 : x;
}

uint64_t hash_of(const std::string& words) { return mixed(1, std::hash<std::string>{}(words)); }

uint64_t hash_of(const Op& op) {
  const Attributes& a = op.attributes;
  uint64_t hash = mixed(2, static_cast<uint64_t>(op.kind));
  for (int64_t number : {a.batch, a.seq, a.heads, a.kv_heads, a.head_dim, a.devices,
                         static_cast<int64_t>(a.transpose_a), static_cast<int64_t>(a.transpose_b),
                         static_cast<int64_t>(a.precision)}) {
    hash = mixed(hash, static_cast<uint64_t>(number));
  }
  for (double number : {a.epsilon, a.rope.theta, a.rope.factor, a.learning_rate, a.weight_decay}) {
    hash = mixed(hash, std::bit_cast<uint64_t>(number));
  }
  return hash;
}

bool only_moves_data(OpKind kind) {
  switch (kind) {
    case OpKind::slice_cast:
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::write_slice:
    case OpKind::copy_d2h:
    case OpKind::copy_h2d:
    case OpKind::copy_d2d:
      return true;
    default:
      return false;
  }
}

}  // namespace

Interpreter::Interpreter(const Program& program, Stage stage) : program_(program), stage_(stage) {
  int64_t layers = 0;  // of all stacks, which one ring may pass through
  for (const Segment& segment : program.segments)
    if (segment.pass == Pass::forward) layers += segment.trips;
  for (const Tensor& tensor : program.tensors) {
    const bool keeps_all = stage == Stage::built && tensor.ring;
    Slices slices(static_cast<size_t>(keeps_all ? layers + 1 : tensor.slices), undefined);
    const bool filled = tensor.extent == Extent::persistent && tensor.space == Space::device;
    for (size_t s = 0; filled && s < slices.size(); ++s) {
      slices[s] = mixed(hash_of(tensor.name), s);
    }
    values_.push_back(std::move(slices));
  }
}

void Interpreter::undefine(TensorId id) {
  Slices& slices = values_[static_cast<size_t>(id)];
  std::fill(slices.begin(), slices.end(), undefined);
}

void Interpreter::begin_step() {
  for (size_t id = 0; id < values_.size(); ++id) {
    if (program_.tensors[id].extent != Extent::persistent) undefine(static_cast<TensorId>(id));
  }
}

void Interpreter::step() {
  begin_step();
  history_.assign(program_.segments.size(), {});
  for (size_t s = 0; s < program_.segments.size(); ++s) {
    const Segment& segment = program_.segments[s];
    for (int64_t i = 0; i < segment.trips; ++i) {
      for (size_t id = 0; id < values_.size(); ++id) {
        if (program_.tensors[id].extent == Extent::local) undefine(static_cast<TensorId>(id));
      }
      for (const Op& op : segment.ops)
        execute(segment, op, i);
      if (stage_ == Stage::built && segment.pass == Pass::forward) history_[s].push_back(values_);
    }
  }
}

void Interpreter::step(const Schedule& schedule, Effect effect) {
  begin_step();
  for (size_t s = 0; s < schedule.segments.size(); ++s) {
    const SegmentSchedule& plan = schedule.segments[s];
    const Segment& segment = program_.segments[s];
    for (TensorId id : plan.enter_allocate)
      undefine(id);
    for (int64_t i = 0; i < segment.trips; ++i)
      perform(segment, plan, i, effect);
    for (TensorId id : plan.exit_release)
      undefine(id);
  }
}

void Interpreter::perform(const Segment& segment, const SegmentSchedule& plan, int64_t iteration,
                          Effect effect) {
  const StepKind acting = effect == Effect::at_start ? StepKind::start : StepKind::done;
  for (const LaneStep& step : plan.lanes[static_cast<size_t>(Lane::compute)]) {
    for (TensorId id : step.allocate)
      undefine(id);
    if (step.kind == StepKind::run || step.kind == acting) {
      execute(segment, segment.ops[static_cast<size_t>(step.op)], iteration);
    }
    for (TensorId id : step.release)
      undefine(id);
  }
}

int64_t Interpreter::first_slice(const Operand& operand, int64_t iteration) const {
  if (operand.index.whole) return 0;
  const Tensor& tensor = program_.at(operand.tensor);
  const int64_t slice = operand.index.stride * iteration + operand.index.offset;
  const bool turns = tensor.ring && stage_ != Stage::built;
  return turns ? ((slice % tensor.slices) + tensor.slices) % tensor.slices : slice;
}

const Interpreter::Slices& Interpreter::value_of(const Segment& segment, TensorId id,
                                                 int64_t iteration) const {
  const Slices& now = values_[static_cast<size_t>(id)];
  const bool of_forward = stage_ == Stage::built && segment.forward_segment >= 0 &&
                          program_.at(id).extent == Extent::local && now.at(0) == undefined;
  if (!of_forward) return now;
  return history_.at(static_cast<size_t>(segment.forward_segment))
      .at(static_cast<size_t>(segment.trips - 1 - iteration))
      .at(static_cast<size_t>(id));
}

Interpreter::Slices Interpreter::read(const Segment& segment, const Op& op, const Operand& operand,
                                      int64_t iteration) const {
  const Slices& all = value_of(segment, operand.tensor, iteration);
  Slices out = all;
  if (!operand.index.whole) out = {all.at(static_cast<size_t>(first_slice(operand, iteration)))};
  check(std::find(out.begin(), out.end(), undefined) == out.end(), segment.name, '[', iteration,
        "] ", op.name, " reads an undefined value of ", program_.at(operand.tensor).name);
  return out;
}

void Interpreter::execute(const Segment& segment, const Op& op, int64_t iteration) {
  std::vector<Slices> inputs;
  for (const Operand& input : op.inputs)
    inputs.push_back(read(segment, op, input, iteration));
  uint64_t computed = hash_of(op);
  for (const Slices& slices : inputs) {
    for (uint64_t value : slices)
      computed = mixed(computed, value);
  }
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    const Operand& output = op.outputs[k];
    Slices& target = values_[static_cast<size_t>(output.tensor)];
    const size_t count = output.index.whole ? target.size() : 1;
    const auto first = static_cast<size_t>(first_slice(output, iteration));
    for (size_t s = 0; s < count; ++s) {
      target.at(first + s) =
          only_moves_data(op.kind) ? inputs[k].at(s) : mixed(mixed(computed, k), s);
    }
  }
}

std::map<std::string, std::vector<uint64_t>> Interpreter::persistent() const {
  std::map<std::string, std::vector<uint64_t>> out;
  for (size_t id = 0; id < values_.size(); ++id) {
    const Tensor& tensor = program_.tensors[id];
    if (tensor.extent == Extent::persistent && tensor.space == Space::device) {
      out[tensor.name] = values_[id];
    }
  }
  return out;
}

}  // namespace spillway
