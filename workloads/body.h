// Appends ops to one segment of a Program under construction: each call makes the op and the
// tensors it produces. What the calls are put together to is the workload's business.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/program.h"

namespace spillway {

// One weight of a model with everything the optimizer keeps beside it. Stacked over layers.
struct Weight {
  bool exists() const { return compute != no_tensor; }
  TensorId compute = no_tensor;  // what ops read: the master itself, or its copy in another dtype
  TensorId master = no_tensor;
  TensorId m = no_tensor, v = no_tensor;
  TensorId gradient = no_tensor;
};

// Adds a tensor; throws InputError when its bytes do not fit 64 bits.
TensorId add_tensor(Program& program, Tensor tensor);

class Body {
 public:
  // `layer` picks this iteration's slice of a stacked weight. `prefix` keeps tensor names unique.
  Body(Program& program, std::string prefix, Index layer, DType dtype)
      : program_(program), prefix_(std::move(prefix)), layer_(layer), dtype_(dtype) {}

  // Values are [rows, width] tensors, local to the segment, in the compute dtype unless given.
  TensorId value(const std::string& name, int64_t width, std::vector<std::string> activations = {},
                 std::optional<DType> dtype = std::nullopt);
  // Any shape; local likewise.
  TensorId tensor(const std::string& name, Shape shape, DType dtype,
                  std::vector<std::string> activations = {});
  void op(OpKind kind, std::string name, std::vector<Operand> inputs, std::vector<Operand> outputs,
          Attributes attributes = {});

  // y = x W^T: [rows, in] x [out, in] -> [rows, out].
  TensorId linear(const std::string& name, Operand x, const Weight& weight, Precision precision,
                  std::vector<std::string> activations = {});
  // dx = dy W: [rows, out] x [out, in] -> [rows, in].
  TensorId input_gradient(const std::string& name, Operand dy, const Weight& weight,
                          Precision precision);
  // dW = dy^T x, straight into the weight's gradient: [rows, out], [rows, in] -> [out, in].
  void weight_gradient(const std::string& name, Operand dy, Operand x, const Weight& weight,
                       Precision precision);
  // Both: the weight's gradient comes first; after it x and, with the input's gradient, dy are free.
  TensorId linear_backward(const std::string& name, TensorId dy, TensorId x, const Weight& weight,
                           Precision precision);
  TensorId add(const std::string& name, Operand x, Operand y);
  // total += more, in place.
  void add_to(const std::string& name, TensorId total, TensorId more);
  // x may hold several groups of the weight's width; each is normalised on its own.
  TensorId rms_norm(const std::string& name, Operand x, const Weight& weight, double epsilon,
                    std::vector<std::string> activations = {});
  // dx = residual + gradient, in place of the residual; also the weight's gradient.
  void rms_norm_backward(const std::string& name, Operand x, const Weight& weight, TensorId dy,
                         TensorId residual, double epsilon);
  // dx of a norm that no residual goes around; also the weight's gradient.
  TensorId rms_norm_backward(const std::string& name, TensorId x, const Weight& weight, TensorId dy,
                             double epsilon);

  Operand layer_of(TensorId stacked) const { return {stacked, layer_}; }
  static Operand all(TensorId tensor) { return {tensor, Index::all()}; }

  Shape shape_of(TensorId tensor) const { return program_.at(tensor).shape; }
  DType dtype() const { return dtype_; }
  int64_t rows() const { return program_.batch * program_.seq; }
  int64_t batch() const { return program_.batch; }
  int64_t seq() const { return program_.seq; }

  std::vector<Op> take_ops() && { return std::move(ops_); }

 private:
  int64_t width_of(TensorId tensor) const { return program_.at(tensor).shape.back(); }

  Program& program_;
  std::string prefix_;
  Index layer_;
  DType dtype_;
  std::vector<Op> ops_;
};

}  // namespace spillway
