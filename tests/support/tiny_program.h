// Hand-built stacks of a few vector additions with the moves of real training steps, and orders for
// them, for tests of the passes that schedule, plan and prove.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "harness/schedule.h"

namespace spillway {

// Builds programs over f32 vectors of 16 elements (64 bytes a slice).
class TinyBuilder {
 public:
  explicit TinyBuilder(std::string name) { program_.name = std::move(name); }

  TensorId local(const std::string& name, Role role = Role::activation);
  TensorId carried(const std::string& name, int64_t slices, Role role = Role::activation);
  TensorId ring(const std::string& name, int64_t slots, Role role = Role::in_flight);
  TensorId persistent(const std::string& name, int64_t slices, Role role = Role::parameter);
  TensorId host(const std::string& name, int64_t slices);
  TensorId add_tensor(Tensor tensor);

  void segment(const std::string& name, int64_t trips, Pass pass = Pass::other);
  // An op of the segment opened last, named after its first output unless told otherwise.
  void op(OpKind kind, std::vector<Operand> inputs, std::vector<Operand> outputs,
          const std::string& name = "");
  void add(Operand x, Operand y, Operand z) { op(OpKind::add, {x, y}, {z}); }

  Program& program() { return program_; }

 private:
  Program program_;
};

inline Operand all(TensorId id) { return {id, Index::all()}; }
inline Operand slice(TensorId id, int64_t stride, int64_t offset) {
  return {id, Index::at(stride, offset)};
}

// Activations saved in a stacked residual; gradients stacked; weights updated in place.
Program kept_stack(int64_t layers);
// Two values a layer go to host memory and come back, in the body that makes or reads them.
Program offloaded_stack(int64_t layers);
// The same with one value, rotated by one iteration through rings; ends peeled. layers >= 2.
Program rotated_stack(int64_t layers);
// Weights gathered from shards of two devices, gradients scattered, beside an offloaded value.
Program sharded_stack(int64_t layers);

struct NamedProgram {
  std::string name;
  Program program;
};
std::vector<NamedProgram> tiny_programs(int64_t layers);

// Legal orders: a done right after its start; starts as early and dones as late as can be; any.
BodyOrder adjacent_order(const Program& program, const Segment& segment);
BodyOrder overlapped_order(const Program& program, const Segment& segment);
BodyOrder random_order(const Program& program, const Segment& segment, std::mt19937& random);

// lay_out() with one of them for every segment.
Schedule adjacent_schedule(const Program& program);
Schedule overlapped_schedule(const Program& program);
Schedule random_schedule(const Program& program, unsigned seed);

}  // namespace spillway
