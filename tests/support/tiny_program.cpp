#include "tests/support/tiny_program.h"

#include <algorithm>
#include <functional>

namespace spillway {
namespace {

constexpr int64_t width = 16;

Tensor vector_tensor(const std::string& name, Role role, Extent extent, int64_t slices) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = {width};
  tensor.role = role;
  tensor.extent = extent;
  tensor.slices = slices;
  return tensor;
}

// What all stacks have around their layers.
struct Frame {
  explicit Frame(const std::string& name, int64_t layers) : builder(name), L(layers) {
    x = builder.persistent("x", 1);
    start = builder.persistent("start", 1);
    weight = builder.persistent("weight", layers);
    gradient = builder.persistent("gradient", layers, Role::gradient);
    hidden = builder.ring("hidden", 2, Role::activation);
    d = builder.carried("d_hidden", 1);
    builder.segment("embed", 1);
    builder.add(all(x), all(x), slice(hidden, 0, 0));
  }

  void head() {
    builder.segment("head", 1);
    const TensorId logits = builder.local("logits", Role::logits);
    builder.add(slice(hidden, 0, L), all(start), all(logits));
    builder.add(all(logits), all(logits), all(d));
  }

  void optimizer() {
    builder.segment("optimizer", 1);
    builder.add(all(weight), all(gradient), all(weight));
  }

  TinyBuilder builder;
  int64_t L;
  TensorId x, start, weight, gradient, hidden, d;
};

// d = d + (d + saved), gradient of the layer = d + saved, in iteration i of a backward segment that
// begins with layer `last`.
void add_backward(Frame& f, Operand saved, int64_t stride, int64_t last, const std::string& tag) {
  const TensorId t = f.builder.local("t" + tag);
  f.builder.add(all(f.d), saved, all(t));
  f.builder.op(OpKind::add, {all(t), saved}, {slice(f.gradient, stride, last)}, "dw" + tag);
  f.builder.op(OpKind::add, {all(f.d), all(t)}, {all(f.d)}, "d" + tag);
}

struct Item {
  OrderItem item;
  std::vector<size_t> after;  // items that come first
};

// Items 2 op and 2 op + 1: begin and end of an op; a run has its end only.
std::vector<Item> items_of(const Program& program, const Segment& segment) {
  std::vector<Item> items(2 * segment.ops.size());
  const auto lane = [&](size_t op) { return lane_of(segment.ops[op]); };
  const std::vector<std::vector<int>> before = dependencies(program, segment);
  for (size_t op = 0; op < segment.ops.size(); ++op) {
    const bool async = lane(op) != Lane::compute;
    items[2 * op].item = {async ? StepKind::start : StepKind::run, static_cast<int>(op)};
    items[2 * op + 1].item = {StepKind::done, static_cast<int>(op)};
    items[2 * op + 1].after = {2 * op};
    for (const int earlier : before[op]) {
      const size_t e = static_cast<size_t>(earlier);
      const bool begun_is_enough = lane(e) == Lane::compute || (async && lane(e) == lane(op));
      items[2 * op].after.push_back(begun_is_enough ? 2 * e : 2 * e + 1);
    }
  }
  return items;
}

using Choose = std::function<size_t(const std::vector<OrderItem>&)>;

BodyOrder topological(const Program& program, const Segment& segment, const Choose& choose) {
  const std::vector<Item> items = items_of(program, segment);
  std::vector<bool> placed(items.size());
  BodyOrder order;
  for (;;) {
    std::vector<size_t> ready;
    std::vector<OrderItem> offer;
    for (size_t k = 0; k < items.size(); ++k) {
      const bool exists = k % 2 == 0 || items[k - 1].item.kind == StepKind::start;
      const bool free = std::all_of(items[k].after.begin(), items[k].after.end(),
                                    [&](size_t other) { return placed[other]; });
      if (!exists || placed[k] || !free) continue;
      ready.push_back(k);
      offer.push_back(items[k].item);
    }
    if (ready.empty()) return order;
    const size_t chosen = ready[choose(offer)];
    placed[chosen] = true;
    order.push_back(items[chosen].item);
  }
}

// The offered item of the lowest rank, the first op among equals.
Choose by_rank(int start, int run, int done) {
  return [=](const std::vector<OrderItem>& offer) {
    const auto rank = [=](const OrderItem& item) {
      return item.kind == StepKind::start ? start : item.kind == StepKind::run ? run : done;
    };
    const auto lower = [&](const OrderItem& a, const OrderItem& b) {
      return rank(a) != rank(b) ? rank(a) < rank(b) : a.op < b.op;
    };
    return static_cast<size_t>(std::min_element(offer.begin(), offer.end(), lower) - offer.begin());
  };
}

template <class MakeOrder>
Schedule schedule_with(const Program& program, const MakeOrder& make) {
  std::vector<BodyOrder> orders;
  for (const Segment& segment : program.segments)
    orders.push_back(make(program, segment));
  return lay_out(program, orders);
}

}  // namespace

TensorId TinyBuilder::add_tensor(Tensor tensor) { return program_.add(std::move(tensor)); }

TensorId TinyBuilder::local(const std::string& name, Role role) {
  return add_tensor(vector_tensor(name, role, Extent::local, 1));
}

TensorId TinyBuilder::carried(const std::string& name, int64_t slices, Role role) {
  return add_tensor(vector_tensor(name, role, Extent::step, slices));
}

TensorId TinyBuilder::ring(const std::string& name, int64_t slots, Role role) {
  Tensor tensor = vector_tensor(name, role, Extent::step, slots);
  tensor.ring = true;
  return add_tensor(tensor);
}

TensorId TinyBuilder::persistent(const std::string& name, int64_t slices, Role role) {
  Tensor tensor = vector_tensor(name, role, Extent::persistent, slices);
  tensor.init = role == Role::parameter ? Init::one : Init::none;
  return add_tensor(tensor);
}

TensorId TinyBuilder::host(const std::string& name, int64_t slices) {
  Tensor tensor = vector_tensor(name, Role::kept, Extent::persistent, slices);
  tensor.space = Space::host;
  return add_tensor(tensor);
}

void TinyBuilder::segment(const std::string& name, int64_t trips, Pass pass) {
  program_.segments.push_back({name, pass, trips, -1, {}});
}

void TinyBuilder::op(OpKind kind, std::vector<Operand> inputs, std::vector<Operand> outputs,
                     const std::string& name) {
  Op op;
  op.kind = kind;
  op.name = name.empty() ? "to." + program_.at(outputs.front().tensor).name : name;
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  op.attributes.devices = program_.devices;
  program_.segments.back().ops.push_back(std::move(op));
}

Program kept_stack(int64_t layers) {
  Frame f("kept", layers);
  const TensorId kept = f.builder.carried("kept", layers, Role::kept);
  const TensorId a = f.builder.local("a"), b = f.builder.local("b");
  f.builder.segment("forward", layers, Pass::forward);
  f.builder.add(slice(f.hidden, 1, 0), slice(f.weight, 1, 0), all(a));
  f.builder.add(all(a), slice(f.hidden, 1, 0), all(b));
  f.builder.add(all(b), all(a), slice(kept, 1, 0));
  f.builder.add(slice(kept, 1, 0), all(b), slice(f.hidden, 1, 1));
  f.head();
  f.builder.segment("backward", layers, Pass::backward);
  add_backward(f, slice(kept, -1, layers - 1), -1, layers - 1, "");
  f.optimizer();
  return f.builder.program();
}

Program offloaded_stack(int64_t layers) {
  Frame f("offloaded", layers);
  const TensorId q = f.builder.local("q", Role::in_flight),
                 k = f.builder.local("k", Role::in_flight);
  const TensorId q_host = f.builder.host("q.host", layers);
  const TensorId k_host = f.builder.host("k.host", layers);
  f.builder.segment("forward", layers, Pass::forward);
  f.builder.add(slice(f.hidden, 1, 0), slice(f.weight, 1, 0), all(q));
  f.builder.op(OpKind::copy_d2h, {all(q)}, {slice(q_host, 1, 0)});
  f.builder.add(slice(f.hidden, 1, 0), all(q), all(k));
  f.builder.op(OpKind::copy_d2h, {all(k)}, {slice(k_host, 1, 0)});
  f.builder.add(all(q), all(k), slice(f.hidden, 1, 1));
  f.head();
  const TensorId q_back = f.builder.local("q.reload", Role::in_flight);
  const TensorId k_back = f.builder.local("k.reload", Role::in_flight), qk = f.builder.local("qk");
  f.builder.segment("backward", layers, Pass::backward);
  f.builder.op(OpKind::copy_h2d, {slice(q_host, -1, layers - 1)}, {all(q_back)});
  f.builder.op(OpKind::copy_h2d, {slice(k_host, -1, layers - 1)}, {all(k_back)});
  f.builder.add(all(q_back), all(k_back), all(qk));
  add_backward(f, all(qk), -1, layers - 1, "");
  f.optimizer();
  return f.builder.program();
}

Program rotated_stack(int64_t layers) {
  Frame f("rotated", layers);
  const TensorId q = f.builder.ring("q", 2), back = f.builder.ring("q.reload", 2);
  const TensorId host = f.builder.host("q.host", layers);
  const auto body = [&](int64_t stride, int64_t layer, const std::string& tag) {
    const TensorId a = f.builder.local("a" + tag);
    f.builder.add(slice(f.hidden, stride, layer), slice(f.weight, stride, layer), all(a));
    f.builder.add(all(a), slice(f.hidden, stride, layer), slice(q, stride, layer));
    f.builder.add(slice(q, stride, layer), all(a), slice(f.hidden, stride, layer + 1));
  };
  f.builder.segment("forward.prologue", 1, Pass::forward);
  body(0, 0, ".first");
  f.builder.segment("forward", layers - 1, Pass::forward);
  f.builder.op(OpKind::copy_d2h, {slice(q, 1, 0)}, {slice(host, 1, 0)});
  body(1, 1, "");
  f.builder.segment("forward.epilogue", 1, Pass::forward);
  f.builder.op(OpKind::copy_d2h, {slice(q, 0, layers - 1)}, {slice(host, 0, layers - 1)});
  f.head();
  f.builder.segment("backward.prologue", 1, Pass::backward);
  f.builder.op(OpKind::copy_h2d, {slice(host, 0, layers - 1)}, {slice(back, 0, 0)});
  f.builder.segment("backward", layers - 1, Pass::backward);
  f.builder.op(OpKind::copy_h2d, {slice(host, -1, layers - 2)}, {slice(back, 1, 1)});
  add_backward(f, slice(back, 1, 0), -1, layers - 1, "");
  f.builder.segment("backward.epilogue", 1, Pass::backward);
  add_backward(f, slice(back, 0, layers - 1), 0, 0, ".last");
  f.optimizer();
  return merge_straight_line(f.builder.program());
}

Program sharded_stack(int64_t layers) {
  Frame f("sharded", layers);
  f.builder.program().devices = 2;
  const auto shards = [&](const std::string& name, Role role, Extent extent, int64_t slices) {
    Tensor tensor = vector_tensor(name, role, extent, slices);
    tensor.shape = {width / 2};
    return f.builder.add_tensor(tensor);
  };
  const TensorId shard = shards("shard", Role::parameter, Extent::persistent, layers);
  const TensorId reduced = shards("reduced", Role::gradient, Extent::persistent, layers);
  const TensorId w = f.builder.local("w", Role::gathered_weight);
  const TensorId q = f.builder.local("q", Role::in_flight);
  const TensorId host = f.builder.host("q.host", layers);
  f.builder.segment("forward", layers, Pass::forward);
  f.builder.op(OpKind::all_gather, {slice(shard, 1, 0)}, {all(w)});
  f.builder.add(slice(f.hidden, 1, 0), slice(f.weight, 1, 0), all(q));
  f.builder.op(OpKind::copy_d2h, {all(q)}, {slice(host, 1, 0)});
  f.builder.add(all(q), all(w), slice(f.hidden, 1, 1));
  f.head();
  const TensorId again = f.builder.local("w.again", Role::gathered_weight);
  const TensorId back = f.builder.local("q.reload", Role::in_flight);
  const TensorId dw = f.builder.local("dw", Role::gathered_weight);
  f.builder.segment("backward", layers, Pass::backward);
  f.builder.op(OpKind::copy_h2d, {slice(host, -1, layers - 1)}, {all(back)});
  f.builder.op(OpKind::all_gather, {slice(shard, -1, layers - 1)}, {all(again)});
  f.builder.add(all(again), all(back), all(dw));
  f.builder.op(OpKind::reduce_scatter, {all(dw)}, {slice(reduced, -1, layers - 1)});
  add_backward(f, all(back), -1, layers - 1, ".b");
  f.optimizer();
  f.builder.add(all(shard), all(reduced), all(shard));
  return f.builder.program();
}

std::vector<NamedProgram> tiny_programs(int64_t layers) {
  return {{"kept", kept_stack(layers)},
          {"offloaded", offloaded_stack(layers)},
          {"rotated", rotated_stack(layers)},
          {"sharded", sharded_stack(layers)}};
}

BodyOrder adjacent_order(const Program& program, const Segment& segment) {
  const Choose plain = by_rank(1, 1, 0);
  return topological(program, segment, plain);
}

BodyOrder overlapped_order(const Program& program, const Segment& segment) {
  return topological(program, segment, by_rank(0, 1, 2));
}

BodyOrder random_order(const Program& program, const Segment& segment, std::mt19937& random) {
  return topological(program, segment,
                     [&](const std::vector<OrderItem>& offer) { return random() % offer.size(); });
}

Schedule adjacent_schedule(const Program& program) {
  return schedule_with(program, adjacent_order);
}

Schedule overlapped_schedule(const Program& program) {
  return schedule_with(program, overlapped_order);
}

Schedule random_schedule(const Program& program, unsigned seed) {
  std::mt19937 random(seed);
  return schedule_with(program, [&](const Program& p, const Segment& segment) {
    return random_order(p, segment, random);
  });
}

}  // namespace spillway
