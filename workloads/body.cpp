#include "workloads/body.h"

#include "workloads/checked.h"

namespace spillway {

TensorId add_tensor(Program& program, Tensor tensor) {
  int64_t bytes = checked_product(tensor.name.c_str(), {tensor.slices, bytes_of(tensor.dtype)});
  for (const int64_t extent : tensor.shape)
    bytes = checked_product(tensor.name.c_str(), {bytes, extent});
  return program.add(std::move(tensor));
}

TensorId Body::value(const std::string& name, int64_t width, std::vector<std::string> activations,
                     std::optional<DType> dtype) {
  return tensor(name, {rows(), width}, dtype.value_or(dtype_), std::move(activations));
}

TensorId Body::tensor(const std::string& name, Shape shape, DType dtype,
                      std::vector<std::string> activations) {
  Tensor tensor;
  tensor.name = prefix_ + name;
  tensor.shape = std::move(shape);
  tensor.dtype = dtype;
  tensor.activations = std::move(activations);
  return add_tensor(program_, std::move(tensor));
}

void Body::op(OpKind kind, std::string name, std::vector<Operand> inputs,
              std::vector<Operand> outputs, Attributes attributes) {
  attributes.batch = program_.batch;
  attributes.seq = program_.seq;
  ops_.push_back(
      {kind, std::move(name), std::move(inputs), std::move(outputs), std::move(attributes)});
}

TensorId Body::linear(const std::string& name, Operand x, const Weight& weight, Precision precision,
                      std::vector<std::string> activations) {
  const int64_t out = program_.at(weight.compute).shape[0];
  const TensorId y = value(name, out, std::move(activations));
  Attributes attributes;
  attributes.transpose_b = true;
  attributes.precision = precision;
  op(OpKind::matmul, name, {x, layer_of(weight.compute)}, {all(y)}, attributes);
  return y;
}

TensorId Body::input_gradient(const std::string& name, Operand dy, const Weight& weight,
                              Precision precision) {
  const TensorId dx = value(name + ".input_gradient", width_of(weight.compute));
  Attributes attributes;
  attributes.precision = precision;
  op(OpKind::matmul, name + ".input_gradient", {dy, layer_of(weight.compute)}, {all(dx)},
     attributes);
  return dx;
}

void Body::weight_gradient(const std::string& name, Operand dy, Operand x, const Weight& weight,
                           Precision precision) {
  Attributes attributes;
  attributes.transpose_a = true;
  attributes.precision = precision;
  op(OpKind::matmul, name + ".weight_gradient", {dy, x}, {layer_of(weight.gradient)}, attributes);
}

TensorId Body::linear_backward(const std::string& name, TensorId dy, TensorId x,
                               const Weight& weight, Precision precision) {
  weight_gradient(name, all(dy), all(x), weight, precision);
  return input_gradient(name, all(dy), weight, precision);
}

TensorId Body::add(const std::string& name, Operand x, Operand y) {
  const TensorId z = value(name, width_of(x.tensor));
  op(OpKind::add, name, {x, y}, {all(z)});
  return z;
}

void Body::add_to(const std::string& name, TensorId total, TensorId more) {
  op(OpKind::add, name, {all(total), all(more)}, {all(total)});
}

TensorId Body::rms_norm(const std::string& name, Operand x, const Weight& weight, double epsilon,
                        std::vector<std::string> activations) {
  const TensorId y = value(name, width_of(x.tensor), std::move(activations));
  Attributes attributes;
  attributes.epsilon = epsilon;
  op(OpKind::rms_norm, name, {x, layer_of(weight.compute)}, {all(y)}, attributes);
  return y;
}

void Body::rms_norm_backward(const std::string& name, Operand x, const Weight& weight, TensorId dy,
                             TensorId residual, double epsilon) {
  Attributes attributes;
  attributes.epsilon = epsilon;
  op(OpKind::rms_norm_backward, name + ".backward",
     {x, layer_of(weight.compute), all(dy), all(residual)},
     {all(residual), layer_of(weight.gradient)}, attributes);
}

TensorId Body::rms_norm_backward(const std::string& name, TensorId x, const Weight& weight,
                                 TensorId dy, double epsilon) {
  const TensorId dx = value(name + ".input_gradient", width_of(x));
  Attributes attributes;
  attributes.epsilon = epsilon;
  op(OpKind::rms_norm_backward, name + ".backward", {all(x), layer_of(weight.compute), all(dy)},
     {all(dx), layer_of(weight.gradient)}, attributes);
  return dx;
}

}  // namespace spillway
