// The hand-written MLP stack of support.h.
#include "tests/offload/support.h"

#include "harness/error.h"
#include "offload/policy.h"

namespace spillway {

namespace {

constexpr int64_t rows = 8, width = 16, inner = 24, vocabulary = 32;

class Builder {
 public:
  Builder(int64_t layers, bool sharded) : layers_(layers), sharded_(sharded) {}
  Program build();

 private:
  struct Weight {
    TensorId weight, m, v, gradient;
    Shape full;
  };

  TensorId local(const std::string& name, Shape shape, std::vector<std::string> names = {}) {
    Tensor tensor{
        .name = name, .shape = std::move(shape), .dtype = DType::f32, .activations = names};
    return program_.add(std::move(tensor));
  }
  TensorId persistent(const std::string& name, Shape shape, int64_t slices, Role role) {
    return program_.add({.name = name,
                         .shape = std::move(shape),
                         .dtype = DType::f32,
                         .role = role,
                         .extent = Extent::persistent,
                         .slices = slices,
                         .activations = {}});
  }
  Weight weight(const std::string& name, Shape shape, int64_t slices);
  Op& op(OpKind kind, const std::string& name, std::vector<Operand> in, std::vector<Operand> out);
  Op& matmul(const std::string& name, Operand a, Operand b, Operand c, char form);
  // A layer's weight in this body, gathered when sharded.
  Operand use(const std::string& name, const Weight& weight, Index layer);
  // A layer's weight gradient: the stack itself, or a full gradient scattered by scatter().
  Operand gradient_of(const std::string& name, const Weight& weight, Index layer);
  void scatter(const std::string& name, const Weight& weight, Operand full, Index layer);
  void end_segment(const std::string& name, Pass pass, int64_t trips, int forward = -1);

  void embed();
  void forward();
  void head();
  void backward();
  void optimizer();

  int64_t layers_;
  bool sharded_;
  Program program_;
  std::vector<Op> ops_;
  TensorId tokens_ = 0, targets_ = 0, hidden_ = 0, d_hidden_ = 0;
  Weight table_{}, norm_{}, gate_w_{}, up_w_{}, down_w_{}, out_w_{};
  TensorId normed_ = 0, gate_ = 0, up_ = 0, act_ = 0;
};

Op& Builder::op(OpKind kind, const std::string& name, std::vector<Operand> in,
                std::vector<Operand> out) {
  ops_.push_back({.kind = kind,
                  .name = name,
                  .inputs = std::move(in),
                  .outputs = std::move(out),
                  .attributes = {}});
  ops_.back().attributes.precision = Precision::fp32;
  ops_.back().attributes.epsilon = 1e-5;
  ops_.back().attributes.devices = sharded_ ? 2 : 1;
  return ops_.back();
}

// form: 'y' = x W^T, 'x' = dy W, 'w' = dy^T x.
Op& Builder::matmul(const std::string& name, Operand a, Operand b, Operand c, char form) {
  Op& made = op(OpKind::matmul, name, {a, b}, {c});
  made.attributes.transpose_b = form == 'y';
  made.attributes.transpose_a = form == 'w';
  return made;
}

Builder::Weight Builder::weight(const std::string& name, Shape shape, int64_t slices) {
  const bool shards = sharded_ && slices == layers_ && name != "table" && name != "out";
  const Shape stored = shards ? Shape{elements_of(shape) / 2} : shape;
  return {persistent(name, stored, slices, Role::parameter),
          persistent(name + ".m", stored, slices, Role::optimizer),
          persistent(name + ".v", stored, slices, Role::optimizer),
          persistent(name + ".gradient", stored, slices, Role::gradient), std::move(shape)};
}

Operand Builder::use(const std::string& name, const Weight& weight, Index layer) {
  if (!sharded_) return {weight.weight, layer};
  const TensorId shard = local(name + ".shard", program_.at(weight.weight).shape);
  const TensorId full = local(name + ".full", weight.full);
  program_.at(full).role = Role::gathered_weight;
  op(OpKind::slice_cast, "cast." + name, {{weight.weight, layer}}, {{shard, {}}});
  op(OpKind::all_gather, "gather." + name, {{shard, {}}}, {{full, {}}});
  return {full, {}};
}

Operand Builder::gradient_of(const std::string& name, const Weight& weight, Index layer) {
  if (!sharded_) return {weight.gradient, layer};
  return {local(name + ".gradient.full", weight.full), {}};
}

void Builder::scatter(const std::string& name, const Weight& weight, Operand full, Index layer) {
  if (!sharded_) return;
  const TensorId shard = local(name + ".gradient.shard", program_.at(weight.gradient).shape);
  op(OpKind::reduce_scatter, "scatter." + name, {full}, {{shard, {}}});
  op(OpKind::write_slice, "write." + name, {{shard, {}}}, {{weight.gradient, layer}});
}

void Builder::end_segment(const std::string& name, Pass pass, int64_t trips, int forward) {
  program_.segments.push_back({name, pass, trips, forward, std::move(ops_)});
  ops_.clear();
}

void Builder::embed() {
  op(OpKind::embed, "embed", {{tokens_, {}}, {table_.weight, Index::at(0, 0)}},
     {{hidden_, Index::at(0, 0)}});
  end_segment("embed", Pass::other, 1);
}

void Builder::forward() {
  const Index here = Index::at(1, 0);
  normed_ = local("normed", {rows, width});
  gate_ = local("gate", {rows, inner}, {"mlpwi_0"});
  up_ = local("up", {rows, inner}, {"mlpwi_1"});
  act_ = local("act", {rows, inner});
  const TensorId down = local("down", {rows, width}, {"mlpwo"});
  op(OpKind::rms_norm, "norm", {{hidden_, here}, use("f.norm", norm_, here)}, {{normed_, {}}});
  matmul("gate", {normed_, {}}, use("f.gate", gate_w_, here), {gate_, {}}, 'y');
  matmul("up", {normed_, {}}, use("f.up", up_w_, here), {up_, {}}, 'y');
  op(OpKind::swiglu, "swiglu", {{gate_, {}}, {up_, {}}}, {{act_, {}}});
  matmul("down", {act_, {}}, use("f.down", down_w_, here), {down, {}}, 'y');
  op(OpKind::add, "residual", {{hidden_, here}, {down, {}}}, {{hidden_, Index::at(1, 1)}});
  end_segment("layers.forward", Pass::forward, layers_);
}

void Builder::head() {
  const TensorId logits = local("logits", {rows, vocabulary});
  program_.at(logits).role = Role::logits;
  const TensorId loss = persistent("loss", {1}, 1, Role::workspace);
  program_.loss = loss;
  const Operand last{hidden_, Index::at(0, layers_)};
  matmul("logits", last, {out_w_.weight, Index::at(0, 0)}, {logits, {}}, 'y');
  op(OpKind::cross_entropy, "loss", {{logits, {}}, {targets_, {}}}, {{loss, {}}, {logits, {}}});
  matmul("logits.wgrad", {logits, {}}, last, {out_w_.gradient, Index::at(0, 0)}, 'w');
  matmul("logits.dgrad", {logits, {}}, {out_w_.weight, Index::at(0, 0)}, {d_hidden_, {}}, 'x');
  end_segment("head", Pass::other, 1);
}

void Builder::backward() {
  const Index here = Index::at(-1, layers_ - 1);
  const TensorId d_act = local("d_act", {rows, inner}), d_gate = local("d_gate", {rows, inner});
  const TensorId d_up = local("d_up", {rows, inner}), by_gate = local("by_gate", {rows, width});
  const TensorId by_up = local("by_up", {rows, width}), d_normed = local("d_normed", {rows, width});
  const auto wgrad = [&](const std::string& name, const Weight& weight, TensorId dy, TensorId x) {
    const Operand full = gradient_of(name, weight, here);
    matmul(name + ".wgrad", {dy, {}}, {x, {}}, full, 'w');
    scatter(name, weight, full, here);
  };
  wgrad("down", down_w_, d_hidden_, act_);
  matmul("down.dgrad", {d_hidden_, {}}, use("b.down", down_w_, here), {d_act, {}}, 'x');
  op(OpKind::swiglu_backward, "swiglu.backward", {{gate_, {}}, {up_, {}}, {d_act, {}}},
     {{d_gate, {}}, {d_up, {}}});
  wgrad("gate", gate_w_, d_gate, normed_);
  matmul("gate.dgrad", {d_gate, {}}, use("b.gate", gate_w_, here), {by_gate, {}}, 'x');
  wgrad("up", up_w_, d_up, normed_);
  matmul("up.dgrad", {d_up, {}}, use("b.up", up_w_, here), {by_up, {}}, 'x');
  op(OpKind::add, "d_normed", {{by_gate, {}}, {by_up, {}}}, {{d_normed, {}}});
  const Operand norm_w = use("b.norm", norm_, here);
  const Operand d_norm = gradient_of("norm", norm_, here);
  op(OpKind::rms_norm_backward, "norm.backward",
     {{hidden_, here}, norm_w, {d_normed, {}}, {d_hidden_, {}}}, {{d_hidden_, {}}, d_norm});
  scatter("norm", norm_, d_norm, here);
  end_segment("layers.backward", Pass::backward, layers_, 1);
}

void Builder::optimizer() {
  op(OpKind::embed_backward, "embed.backward", {{tokens_, {}}, {d_hidden_, {}}},
     {{table_.gradient, {}}});
  int n = 0;
  for (const Weight* w : {&table_, &norm_, &gate_w_, &up_w_, &down_w_, &out_w_}) {
    op(OpKind::adamw, "adamw." + std::to_string(n++),
       {{w->weight, {}}, {w->m, {}}, {w->v, {}}, {w->gradient, {}}},
       {{w->weight, {}}, {w->m, {}}, {w->v, {}}});
  }
  end_segment("optimizer", Pass::other, 1);
}

Program Builder::build() {
  program_.name = "mlp stack";
  program_.batch = 2;
  program_.seq = rows / 2;
  program_.devices = sharded_ ? 2 : 1;
  tokens_ = persistent("tokens", {rows}, 1, Role::activation);
  targets_ = persistent("targets", {rows}, 1, Role::activation);
  program_.at(tokens_).dtype = program_.at(targets_).dtype = DType::i32;
  hidden_ = program_.add({.name = "hidden",
                          .shape = {rows, width},
                          .dtype = DType::f32,
                          .extent = Extent::step,
                          .slices = 2,
                          .ring = true,
                          .activations = {"decoder_layer_input"}});
  d_hidden_ = program_.add({.name = "d_hidden",
                            .shape = {rows, width},
                            .dtype = DType::f32,
                            .extent = Extent::step,
                            .activations = {}});
  table_ = weight("table", {vocabulary, width}, 1);
  norm_ = weight("norm_w", {width}, layers_);
  gate_w_ = weight("gate_w", {inner, width}, layers_);
  up_w_ = weight("up_w", {inner, width}, layers_);
  down_w_ = weight("down_w", {width, inner}, layers_);
  out_w_ = weight("out", {vocabulary, width}, 1);
  embed();
  forward();
  head();
  backward();
  optimizer();
  return std::move(program_);
}

}  // namespace

Program mlp_stack(int64_t layers) { return Builder(layers, false).build(); }
Program sharded_mlp_stack(int64_t layers) { return Builder(layers, true).build(); }

Program with_policy(const Program& built, const std::string& policy) {
  return apply_policy(built, parse_policy(policy)).program;
}

const Segment& segment_named(const Program& program, const std::string& name) {
  for (const Segment& segment : program.segments) {
    if (segment.name == name) return segment;
  }
  throw std::logic_error("no segment " + name);
}

bool has_tensor(const Program& program, const std::string& name) {
  for (const Tensor& tensor : program.tensors) {
    if (tensor.name == name) return true;
  }
  return false;
}

const Tensor& tensor_named(const Program& program, const std::string& name) {
  for (const Tensor& tensor : program.tensors) {
    if (tensor.name == name) return tensor;
  }
  throw std::logic_error("no tensor " + name);
}

std::vector<std::string> op_names(const Segment& segment) {
  std::vector<std::string> names;
  for (const Op& op : segment.ops)
    names.push_back(op.name);
  return names;
}

const Op& op_named(const Segment& segment, const std::string& name) {
  for (const Op& op : segment.ops) {
    if (op.name == name) return op;
  }
  throw std::logic_error("no op " + name + " in " + segment.name);
}

}  // namespace spillway
