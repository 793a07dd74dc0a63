#include "tests/harness/support_cpu.h"

#include <cstring>

namespace spillway {
namespace {

Tensor vector_of(const char* name, int64_t elements, Extent extent, int64_t slices) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = {elements};
  tensor.extent = extent;
  tensor.slices = slices;
  return tensor;
}

Tensor random_vector(const char* name, int64_t elements, int64_t slices) {
  Tensor tensor = vector_of(name, elements, Extent::persistent, slices);
  tensor.role = Role::parameter;
  tensor.init = Init::normal;
  tensor.init_scale = 0.5;
  return tensor;
}

Op op_of(OpKind kind, const char* name, std::vector<Operand> inputs, std::vector<Operand> outputs) {
  Op op;
  op.kind = kind;
  op.name = name;
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  return op;
}

constexpr OrderItem run_op(int op) { return {StepKind::run, op}; }
constexpr OrderItem start_op(int op) { return {StepKind::start, op}; }
constexpr OrderItem done_op(int op) { return {StepKind::done, op}; }

}  // namespace

OffloadStack::OffloadStack(int64_t layer_count, int64_t element_count)
    : layers(layer_count), elements(element_count) {
  Program p;
  p.name = "offload stack";
  x = p.add(random_vector("x", elements, 1));
  weight = p.add(random_vector("weight", elements, layers));
  start = p.add(random_vector("start", elements, 1));
  gradient = p.add(vector_of("gradient", elements, Extent::persistent, layers));
  p.at(gradient).role = Role::gradient;
  host = p.add(vector_of("host", elements, Extent::step, layers));
  p.at(host).space = Space::host;
  hidden = p.add(vector_of("hidden", elements, Extent::step, 2));
  p.at(hidden).ring = true;
  d = p.add(vector_of("d", elements, Extent::step, 1));
  loss = p.add(vector_of("loss", 1, Extent::step, 1));
  const TensorId one = p.add(vector_of("one", 1, Extent::persistent, 1));
  p.at(one).init = Init::one;
  r = p.add(vector_of("r", elements, Extent::local, 1));
  p.loss = loss;
  const Index all = Index::all(), up = Index::at(1, 0), down = Index::at(-1, layers - 1);
  p.segments = {
      {"enter",
       Pass::other,
       1,
       -1,
       {op_of(OpKind::add, "double", {{x, all}, {x, all}}, {{hidden, Index::at(0, 0)}})}},
      {"forward",
       Pass::forward,
       layers,
       -1,
       {op_of(OpKind::copy_d2h, "offload", {{hidden, up}}, {{host, up}}),
        op_of(OpKind::add, "layer", {{hidden, up}, {weight, up}}, {{hidden, Index::at(1, 1)}})}},
      {"turn",
       Pass::other,
       1,
       -1,
       {op_of(OpKind::add, "turn", {{hidden, Index::at(0, layers)}, {start, all}}, {{d, all}}),
        op_of(OpKind::add, "loss", {{one, all}, {one, all}}, {{loss, all}})}},
      {"backward",
       Pass::backward,
       layers,
       1,
       {op_of(OpKind::copy_h2d, "reload", {{host, down}}, {{r, all}}),
        op_of(OpKind::add, "accumulate", {{d, all}, {r, all}}, {{d, all}}),
        op_of(OpKind::add, "gradient", {{d, all}, {r, all}}, {{gradient, down}})}},
  };
  schedule = lay_out(p, {{run_op(0)},
                         {start_op(0), run_op(1), done_op(0)},
                         {run_op(0), run_op(1)},
                         {start_op(0), done_op(0), run_op(1), run_op(2)}});
}

std::vector<float> OffloadStack::expected_gradient(const ValueExecutor& executor) const {
  const auto xs = read_floats(executor, x), weights = read_floats(executor, weight);
  const auto starts = read_floats(executor, start);
  std::vector<float> result(static_cast<size_t>(layers * elements));
  const auto n = static_cast<size_t>(elements), depth = static_cast<size_t>(layers);
  for (size_t e = 0; e < n; ++e) {
    std::vector<float> saved;
    float value = xs[e] + xs[e];
    for (size_t l = 0; l < depth; ++l) {
      saved.push_back(value);
      value += weights[l * n + e];
    }
    value += starts[e];
    for (size_t l = depth; l-- > 0;) {
      value += saved[l];
      result[l * n + e] = value + saved[l];
    }
  }
  return result;
}

Plan plan_apart(const Program& program) {
  Plan plan;
  for (const Tensor& tensor : program.tensors) {
    int64_t& end = tensor.space == Space::device ? plan.device_bytes : plan.host_arena_bytes;
    plan.offset.push_back(end);
    end += (tensor.bytes() + arena_alignment - 1) / arena_alignment * arena_alignment;
    if (tensor.space == Space::host) plan.host_bytes += tensor.bytes();
  }
  return plan;
}

std::vector<float> read_floats(const ValueExecutor& executor, TensorId tensor) {
  const std::vector<std::byte> bytes = executor.read(tensor);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace spillway
