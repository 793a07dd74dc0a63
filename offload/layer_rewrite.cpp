// Keeps, moves and recomputes: resolves every forward value that a backward body reads.
#include "offload/layer_rewrite.h"

#include <algorithm>
#include <utility>

#include "harness/error.h"
#include "offload/clone_order.h"

namespace spillway {

namespace {

class Rewriter {
 public:
  Rewriter(Program& program, int backward, const std::vector<TensorFate>& fates, bool resident);
  LayerRewrite run();

 private:
  Segment& forward() { return program_.segments[static_cast<size_t>(forward_)]; }
  Segment& backward() { return program_.segments[static_cast<size_t>(result_.backward)]; }
  // What a tensor of the program as it came is to this stack.
  struct Known {
    int producer = -1;  // forward op, of a forward-local tensor
    // Written by the forward segment, alive between segments; the slice that enters iteration i.
    // Stacks that follow each other carry one tensor through, so the first slice may not be 0.
    bool carry = false;
    Index enters;
    bool kept = false;
    bool resolved = false;
    Operand value;                // resolved: what the backward reads
    TensorId reload = no_tensor;  // moved: where it lands in the backward body
  };
  Known& known(TensorId id) { return known_[index_of(id)]; }
  bool is_forward_local(TensorId id) { return known(id).producer >= 0; }
  bool is_carry(TensorId id) { return known(id).carry; }

  Fate fate(TensorId id) const {
    const Fate given = fates_[index_of(id)].fate;
    return resident_ && given == Fate::offload ? Fate::device : given;
  }
  Operand resolve(TensorId id, Operand value) {
    known(id).resolved = true;
    return known(id).value = value;
  }

  Operand resolve_in_backward(const Operand& operand);
  Operand resolve_of_forward(const Operand& operand);
  Operand resolve_carry(const Operand& operand);
  Index mirrored(const Index& index) const;
  Operand value_of(TensorId id);
  Operand reload_of(TensorId id);
  std::string name_of_moved(TensorId id);
  void clone(int forward_op);
  const Op* twin_of(const Op& op) const;

  void rewrite_backward();
  void keep_values();
  void keep(TensorId id);
  void keep_carry(TensorId id);
  // The host copies of a moved value.
  struct RoundTrip {
    Op write, read;
  };
  RoundTrip round_trip(TensorId id);
  void move_values();

  Program& program_;
  const std::vector<TensorFate>& fates_;
  int forward_ = -1;
  bool resident_ = false;
  int64_t layers_ = 0;
  LayerRewrite result_;
  std::vector<Known> known_;  // per tensor of the program as it came
  std::vector<BodyOp> body_;  // backward ops, then clones
};

Rewriter::Rewriter(Program& program, int backward, const std::vector<TensorFate>& fates,
                   bool resident)
    : program_(program), fates_(fates), resident_(resident), known_(program.tensors.size()) {
  result_.backward = backward;
  forward_ = this->backward().forward_segment;
  layers_ = result_.layers = forward().trips;
  check(this->backward().trips == layers_, "segment ", this->backward().name, " runs ",
        this->backward().trips, " times, its forward segment ", layers_);
  for (size_t i = 0; i < forward().ops.size(); ++i) {
    for (const Operand& output : forward().ops[i].outputs) {
      const Extent extent = program_.at(output.tensor).extent;
      Known& tensor = known(output.tensor);
      if (extent == Extent::local && tensor.producer < 0) tensor.producer = static_cast<int>(i);
      if (extent != Extent::step || tensor.carry) continue;
      tensor.carry = true;  // the layer before wrote the slice before
      tensor.enters = Index::at(1, output.index.offset - 1);
    }
  }
}

// Backward iteration i belongs to layer L-1-i.
Operand Rewriter::value_of(TensorId id) {
  if (known(id).resolved) return known(id).value;
  switch (fate(id)) {
    case Fate::device:
      known(id).kept = true;
      return resolve(id, {id, Index::at(-1, layers_ - 1)});
    case Fate::offload:
      return resolve(id, reload_of(id));
    case Fate::remat:
      clone(known(id).producer);
      check(known(id).resolved, "recomputing ", program_.at(id).name, " gave it no value");
      return known(id).value;
  }
  return {};
}

// A carry is moved by every stack it passes through.
std::string Rewriter::name_of_moved(TensorId id) {
  const std::string& name = program_.at(id).name;
  if (!is_carry(id) || known(id).enters.offset == 0) return name;
  return forward().name.substr(0, forward().name.find('.')) + "." + name;
}

Operand Rewriter::reload_of(TensorId id) {
  if (known(id).reload != no_tensor) return {known(id).reload, Index::all()};
  const Tensor& from = program_.at(id);
  Tensor reload{.name = name_of_moved(id) + ".reload",
                .shape = from.shape,
                .dtype = from.dtype,
                .role = Role::in_flight,
                .ragged = from.ragged,
                .activations = {}};
  known(id).reload = program_.add(std::move(reload));
  return {known(id).reload, Index::all()};
}

// What forward iteration L-1-i means by `index`, as iteration i of the backward says it.
Index Rewriter::mirrored(const Index& index) const {
  if (index.whole) return index;
  return Index::at(-index.stride, index.stride * (layers_ - 1) + index.offset);
}

Operand Rewriter::resolve_carry(const Operand& operand) {
  if (fate(operand.tensor) == Fate::offload) {
    check(operand.index == mirrored(known(operand.tensor).enters), "backward reads ",
          program_.at(operand.tensor).name, " of another layer than its own: it has no host slot");
    return reload_of(operand.tensor);
  }
  known(operand.tensor).kept = true;
  return operand;
}

Operand Rewriter::resolve_in_backward(const Operand& operand) {
  if (is_forward_local(operand.tensor)) return value_of(operand.tensor);
  if (is_carry(operand.tensor)) return resolve_carry(operand);
  return operand;
}

// An operand as a forward op means it, as a clone of that op must read it.
Operand Rewriter::resolve_of_forward(const Operand& operand) {
  if (is_forward_local(operand.tensor)) return value_of(operand.tensor);
  const Operand here{operand.tensor, mirrored(operand.index)};
  return is_carry(operand.tensor) ? resolve_carry(here) : here;
}

// An op of the backward body that computes the same: a weight gathered there for the gradient
// serves the recomputation too.
const Op* Rewriter::twin_of(const Op& op) const {
  const auto pure = [&](const Op& twin) {
    return std::all_of(twin.outputs.begin(), twin.outputs.end(), [&](const Operand& output) {
      return program_.at(output.tensor).extent == Extent::local &&
             std::find(twin.inputs.begin(), twin.inputs.end(), output) == twin.inputs.end();
    });
  };
  for (const BodyOp& node : body_) {
    const Op& twin = node.op;
    if (twin.kind == op.kind && !node.clone && twin.inputs == op.inputs &&
        twin.outputs.size() == op.outputs.size() && twin.attributes == op.attributes && pure(twin))
      return &twin;
  }
  return nullptr;
}

// Called once an op: afterwards all its recomputed outputs are resolved.
void Rewriter::clone(int forward_op) {
  const Op original = forward().ops[static_cast<size_t>(forward_op)];
  Op copy = original;
  for (Operand& input : copy.inputs)
    input = resolve_of_forward(input);
  const Op* twin = twin_of(copy);
  for (size_t k = 0; k < original.outputs.size(); ++k) {
    const TensorId id = original.outputs[k].tensor;
    check(is_forward_local(id), "op ", original.name, " cannot be recomputed: it writes ",
          program_.at(id).name, ", which outlives the layer");
    if (twin == nullptr) {
      Tensor again = program_.at(id);
      again.name += ".remat";
      again.activations.clear();
      copy.outputs[k] = {program_.add(std::move(again)), Index::all()};
    }
    // A sibling output may have survived by itself (attention_out without context).
    if (fate(id) == Fate::remat) resolve(id, twin != nullptr ? twin->outputs[k] : copy.outputs[k]);
  }
  if (twin != nullptr) return;
  copy.name += ".remat";
  copy.recomputed = true;
  body_.push_back({std::move(copy), true, forward_op});
  for (const Operand& output : original.outputs) {
    if (fate(output.tensor) == Fate::remat) result_.recomputed.push_back(output.tensor);
  }
}

Op host_copy(OpKind kind, const std::string& name, Operand from, Operand to,
             std::string activation) {
  Op op{.kind = kind, .name = name, .inputs = {from}, .outputs = {to}, .attributes = {}};
  op.attributes.activation = std::move(activation);
  return op;
}

void Rewriter::rewrite_backward() {
  const size_t own = backward().ops.size();
  body_.reserve(own + forward().ops.size());
  for (Op& op : backward().ops)
    body_.push_back({std::move(op)});
  for (size_t i = 0; i < own; ++i) {
    std::vector<Operand> inputs = body_[i].op.inputs;
    for (Operand& input : inputs)
      input = resolve_in_backward(input);  // clones join the body
    body_[i].op.inputs = std::move(inputs);
  }
  backward().ops.clear();
  for (BodyOp& placed : place_clones(program_, std::move(body_))) {
    if (placed.clone) result_.clones.push_back(static_cast<int>(backward().ops.size()));
    backward().ops.push_back(std::move(placed.op));
  }
}

void Rewriter::keep_carry(TensorId id) {
  Tensor& tensor = program_.at(id);
  if (fates_[index_of(id)].fate == Fate::offload) {
    // Earlier layers move it: its ring goes on. Stacks come from the last to the first.
    tensor.slices = tensor.role == Role::kept ? tensor.slices + layers_ : layers_ + 1;
  } else {  // what enters each layer, and what leaves the last one of the last stack
    const int64_t needed = known(id).enters.offset + layers_ + 1;
    tensor.slices = tensor.ring ? needed : std::max(tensor.slices, needed);
    tensor.ring = false;
  }
  tensor.role = Role::kept;
}

void Rewriter::keep(TensorId id) {
  if (is_carry(id)) return keep_carry(id);
  Tensor& tensor = program_.at(id);
  tensor.role = Role::kept;
  tensor.extent = Extent::step;
  tensor.slices = layers_;
}

// The values that the forward keeps, as slices of their stacks.
void Rewriter::keep_values() {
  for (TensorId id : result_.kept)
    keep(id);
  const auto make_slice = [&](Operand& operand) {
    if (known(operand.tensor).kept && !is_carry(operand.tensor)) operand.index = Index::at(1, 0);
  };
  for (Op& op : forward().ops) {
    std::for_each(op.inputs.begin(), op.inputs.end(), make_slice);
    std::for_each(op.outputs.begin(), op.outputs.end(), make_slice);
  }
}

Rewriter::RoundTrip Rewriter::round_trip(TensorId id) {
  const bool carry = is_carry(id);
  if (!carry) program_.at(id).role = Role::in_flight;
  const Tensor& from = program_.at(id);
  const std::string name = from.name;
  Tensor slots{.name = name_of_moved(id) + ".host",
               .shape = from.shape,
               .dtype = from.dtype,
               .extent = Extent::persistent,
               .space = Space::host,
               .slices = layers_,
               .ragged = from.ragged,
               .activations = {}};
  const TensorId host = program_.add(std::move(slots));
  const std::string& activation = fates_[index_of(id)].name;
  return {host_copy(OpKind::copy_d2h, "d2h." + name, {id, carry ? known(id).enters : Index::all()},
                    {host, Index::at(1, 0)}, activation),
          host_copy(OpKind::copy_h2d, "h2d." + name, {host, Index::at(-1, layers_ - 1)},
                    {known(id).reload, Index::all()}, activation)};
}

// D2H right after the producer (a carry was produced before the body), H2D at the start of
// backward.
void Rewriter::move_values() {
  std::vector<std::pair<int, TensorId>> order;  // forward op, -1: at the start
  for (const TensorId id : result_.moved)
    order.emplace_back(known(id).producer, id);
  std::sort(order.begin(), order.end());
  std::vector<Op> reads, writes_and_body;
  writes_and_body.reserve(forward().ops.size() + order.size());
  size_t next = 0;
  const auto write_after = [&](int position) {
    for (; next < order.size() && order[next].first == position; ++next) {
      auto [write, read] = round_trip(order[next].second);
      writes_and_body.push_back(std::move(write));
      reads.push_back(std::move(read));
    }
  };
  write_after(-1);
  for (size_t i = 0; i < forward().ops.size(); ++i) {
    writes_and_body.push_back(std::move(forward().ops[i]));
    write_after(static_cast<int>(i));
  }
  forward().ops = std::move(writes_and_body);
  backward().ops.insert(backward().ops.begin(), std::make_move_iterator(reads.begin()),
                        std::make_move_iterator(reads.end()));
  for (int& op : result_.clones)
    op += static_cast<int>(reads.size());
}

LayerRewrite Rewriter::run() {
  rewrite_backward();
  for (size_t id = 0; id < known_.size(); ++id) {
    if (known_[id].kept) result_.kept.push_back(static_cast<TensorId>(id));
    if (known_[id].reload != no_tensor) result_.moved.push_back(static_cast<TensorId>(id));
  }
  keep_values();
  move_values();
  return std::move(result_);
}

}  // namespace

LayerRewrite rewrite_layers(Program& program, int backward, const std::vector<TensorFate>& fates,
                            bool resident) {
  return Rewriter(program, backward, fates, resident).run();
}

}  // namespace spillway
