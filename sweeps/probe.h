// Small programs of a few ops over operand sets in turn, run by the CPU executor: what one kind of
// work costs by itself. Nothing of a model here.
#pragma once

#include <memory>
#include <vector>

#include "harness/executor.h"

namespace spillway {

// Operand i of iteration k is slice k of a stack of its own, so that operands come from memory.
struct ProbeOp {
  OpKind kind = OpKind::add;
  std::vector<Shape> inputs;
  Shape output;
  DType dtype = DType::f32;
};

// One body of the ops in this order, copies started together and awaited at its end, run once for
// each of `sets` operand sets in a step.
Schedule probe_schedule(const std::vector<ProbeOp>& ops, int64_t sets);

class Probe {
 public:
  Probe(const std::vector<ProbeOp>& ops, int64_t sets, std::shared_ptr<CpuMemory> memory = nullptr);

  Trace step() { return executor_->step(); }
  const Program& program() const { return schedule_.program; }
  // As they stand in the program; traces name them by position.
  const Op& op(int index) const { return program().segments[0].ops[static_cast<size_t>(index)]; }

 private:
  Schedule schedule_;
  Plan plan_;
  std::unique_ptr<CpuExecutor> executor_;
};

// Seconds of every run of one op in a step.
std::vector<double> seconds_of(const Trace& trace, int op);

// A square product of bf16 matrices: the yardstick of how fast this machine is at the moment.
class ReferenceProduct {
 public:
  static constexpr int64_t width = 1024;
  ReferenceProduct();
  // Median of as many products as take about so long, of four at least.
  Reference time(double seconds);
  Op op() const { return probe_.op(0); }
  const Program& program() const { return probe_.program(); }

 private:
  Probe probe_;
};

// Median and interquartile range over median. values must not be empty.
Reference median_of(std::vector<double> values);

}  // namespace spillway
