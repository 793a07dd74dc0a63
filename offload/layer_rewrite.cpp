// Keeps, moves and recomputes: resolves every forward value that a backward body reads.
#include "offload/layer_rewrite.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "harness/error.h"
#include "offload/clone_order.h"

namespace spillway {

namespace {

class Rewriter {
 public:
  Rewriter(Program& program, int backward, const std::vector<TensorFate>& fates);
  LayerRewrite run();

 private:
  Segment& forward() { return program_.segments[static_cast<size_t>(forward_)]; }
  Segment& backward() { return program_.segments[static_cast<size_t>(result_.backward)]; }
  Fate fate(TensorId id) const { return fates_[static_cast<size_t>(id)].fate; }

  bool is_forward_local(TensorId id) const;
  bool is_carry(TensorId id) const;
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
  void rewrite_forward();
  void keep(TensorId id);

  Program& program_;
  const std::vector<TensorFate>& fates_;
  int forward_ = -1;
  int64_t layers_ = 0;
  LayerRewrite result_;
  std::map<TensorId, int> producer_;  // forward-local tensor -> forward op
  // Written by the forward segment, alive between segments -> slice that enters iteration i. Stacks
  // that follow each other carry one tensor through, so the first slice may not be 0.
  std::map<TensorId, Index> carries_;
  std::map<TensorId, Operand> resolved_;  // forward-local tensor -> what the backward reads
  std::set<TensorId> kept_;
  std::map<TensorId, TensorId> reload_;  // moved tensor -> where it lands in the backward body
  std::vector<BodyOp> body_;             // backward ops, then clones
};

Rewriter::Rewriter(Program& program, int backward, const std::vector<TensorFate>& fates)
    : program_(program), fates_(fates) {
  result_.backward = backward;
  forward_ = this->backward().forward_segment;
  layers_ = result_.layers = forward().trips;
  check(this->backward().trips == layers_, "segment ", this->backward().name, " runs ",
        this->backward().trips, " times, its forward segment ", layers_);
  for (size_t i = 0; i < forward().ops.size(); ++i) {
    for (const Operand& output : forward().ops[i].outputs) {
      const Tensor& tensor = program_.at(output.tensor);
      if (tensor.extent == Extent::local) producer_.emplace(output.tensor, static_cast<int>(i));
      if (tensor.extent == Extent::step)  // the layer before wrote the slice before
        carries_.emplace(output.tensor, Index::at(1, output.index.offset - 1));
    }
  }
}

bool Rewriter::is_forward_local(TensorId id) const { return producer_.count(id) > 0; }
bool Rewriter::is_carry(TensorId id) const { return carries_.count(id) > 0; }

// Backward iteration i belongs to layer L-1-i.
Operand Rewriter::value_of(TensorId id) {
  if (const auto found = resolved_.find(id); found != resolved_.end()) return found->second;
  switch (fate(id)) {
    case Fate::device:
      kept_.insert(id);
      return resolved_[id] = {id, Index::at(-1, layers_ - 1)};
    case Fate::offload:
      return resolved_[id] = reload_of(id);
    case Fate::remat:
      clone(producer_.at(id));
      return resolved_.at(id);
  }
  return {};
}

// A carry is moved by every stack it passes through.
std::string Rewriter::name_of_moved(TensorId id) {
  const std::string& name = program_.at(id).name;
  if (!is_carry(id) || carries_.at(id).offset == 0) return name;
  return forward().name.substr(0, forward().name.find('.')) + "." + name;
}

Operand Rewriter::reload_of(TensorId id) {
  if (const auto found = reload_.find(id); found != reload_.end()) return {found->second, {}};
  const Tensor& from = program_.at(id);
  Tensor reload{.name = name_of_moved(id) + ".reload",
                .shape = from.shape,
                .dtype = from.dtype,
                .role = Role::in_flight,
                .ragged = from.ragged,
                .activations = {}};
  reload_[id] = program_.add(std::move(reload));
  return {reload_[id], Index::all()};
}

// What forward iteration L-1-i means by `index`, as iteration i of the backward says it.
Index Rewriter::mirrored(const Index& index) const {
  if (index.whole) return index;
  return Index::at(-index.stride, index.stride * (layers_ - 1) + index.offset);
}

Operand Rewriter::resolve_carry(const Operand& operand) {
  if (fate(operand.tensor) == Fate::offload) {
    check(operand.index == mirrored(carries_.at(operand.tensor)), "backward reads ",
          program_.at(operand.tensor).name, " of another layer than its own: it has no host slot");
    return reload_of(operand.tensor);
  }
  kept_.insert(operand.tensor);
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
  for (const BodyOp& node : body_) {
    const bool pure =
        std::all_of(node.op.outputs.begin(), node.op.outputs.end(), [&](const Operand& output) {
          return program_.at(output.tensor).extent == Extent::local &&
                 std::find(node.op.inputs.begin(), node.op.inputs.end(), output) ==
                     node.op.inputs.end();
        });
    if (!node.clone && pure && node.op.kind == op.kind && node.op.attributes == op.attributes &&
        node.op.inputs == op.inputs && node.op.outputs.size() == op.outputs.size()) {
      return &node.op;
    }
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
    if (fate(id) == Fate::remat)
      resolved_[id] = twin != nullptr ? twin->outputs[k] : copy.outputs[k];
  }
  if (twin != nullptr) return;
  copy.name += ".remat";
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
  const std::vector<Op> original = backward().ops;
  for (const Op& op : original)
    body_.push_back({op});
  for (size_t i = 0; i < original.size(); ++i) {
    std::vector<Operand> inputs = original[i].inputs;
    for (Operand& input : inputs)
      input = resolve_in_backward(input);  // clones join the body
    body_[i].op.inputs = std::move(inputs);
  }
  backward().ops.clear();
  for (BodyOp& placed : place_clones(program_, body_)) {
    if (placed.clone) result_.clones.push_back(static_cast<int>(backward().ops.size()));
    backward().ops.push_back(std::move(placed.op));
  }
}

void Rewriter::keep(TensorId id) {
  Tensor& tensor = program_.at(id);
  tensor.role = Role::kept;
  tensor.extent = Extent::step;
  if (is_carry(id)) {  // what enters each layer, and what leaves the last one of the last stack
    const int64_t needed = carries_.at(id).offset + layers_ + 1;
    tensor.slices = tensor.ring ? needed : std::max(tensor.slices, needed);
    tensor.ring = false;
    return;
  }
  tensor.slices = layers_;
  const auto make_slice = [&](Operand& operand) {
    if (operand.tensor == id) operand.index = Index::at(1, 0);
  };
  for (Op& op : forward().ops) {
    std::for_each(op.inputs.begin(), op.inputs.end(), make_slice);
    std::for_each(op.outputs.begin(), op.outputs.end(), make_slice);
  }
}

// D2H right after the producer (a carry was produced before the body), H2D at the start of
// backward.
void Rewriter::rewrite_forward() {
  for (TensorId id : kept_)
    keep(id);
  std::map<int, std::vector<Op>> after;  // forward op -> copies behind it; -1: at the start
  std::vector<std::pair<int, TensorId>> order;
  for (const auto& [id, landing] : reload_) {
    order.emplace_back(is_carry(id) ? -1 : producer_.at(id), id);
  }
  std::sort(order.begin(), order.end());
  std::vector<Op> reloads;
  for (const auto& [position, id] : order) {
    const bool carry = is_carry(id);
    if (!carry) program_.at(id).role = Role::in_flight;
    const Tensor from = program_.at(id);
    Tensor slots{.name = name_of_moved(id) + ".host",
                 .shape = from.shape,
                 .dtype = from.dtype,
                 .extent = Extent::persistent,
                 .space = Space::host,
                 .slices = layers_,
                 .ragged = from.ragged,
                 .activations = {}};
    const TensorId host = program_.add(std::move(slots));
    const std::string& activation = fates_[static_cast<size_t>(id)].name;
    after[position].push_back(host_copy(OpKind::copy_d2h, "d2h." + from.name,
                                        {id, carry ? carries_.at(id) : Index::all()},
                                        {host, Index::at(1, 0)}, activation));
    reloads.push_back(host_copy(OpKind::copy_h2d, "h2d." + from.name,
                                {host, Index::at(-1, layers_ - 1)}, {reload_[id], Index::all()},
                                activation));
  }
  std::vector<Op> body = after[-1];
  for (size_t i = 0; i < forward().ops.size(); ++i) {
    body.push_back(forward().ops[i]);
    const std::vector<Op>& copies = after[static_cast<int>(i)];
    body.insert(body.end(), copies.begin(), copies.end());
  }
  forward().ops = std::move(body);
  backward().ops.insert(backward().ops.begin(), reloads.begin(), reloads.end());
  for (int& op : result_.clones)
    op += static_cast<int>(reloads.size());
}

LayerRewrite Rewriter::run() {
  rewrite_backward();
  rewrite_forward();
  result_.kept.assign(kept_.begin(), kept_.end());
  for (const auto& [id, landing] : reload_)
    result_.moved.push_back(id);
  return std::move(result_);
}

}  // namespace

LayerRewrite rewrite_layers(Program& program, int backward, const std::vector<TensorFate>& fates) {
  return Rewriter(program, backward, fates).run();
}

}  // namespace spillway
