// Small programs of a few ops over operand sets in turn.
#include "sweeps/probe.h"

#include <algorithm>

#include "harness/error.h"
#include "harness/measurement.h"

namespace spillway {
namespace {

Operand probe_operand(Program& program, const Shape& shape, DType dtype, Space space,
                      int64_t sets) {
  Tensor tensor;
  tensor.name = text("t", program.tensors.size());
  tensor.shape = shape;
  tensor.dtype = dtype;
  tensor.extent = Extent::persistent;
  tensor.space = space;
  tensor.slices = sets;
  tensor.init = space == Space::device ? Init::normal : Init::none;
  tensor.init_scale = 1;
  return {program.add(tensor), Index::at(1, 0)};
}

Program probe_program(const std::vector<ProbeOp>& ops, int64_t sets) {
  Program program;
  program.name = "probe";
  program.segments.push_back({"probe", Pass::other, sets, -1, {}});
  for (const ProbeOp& probe : ops) {
    Op op;
    op.kind = probe.kind;
    op.name = text(info(probe.kind).name, " ", program.segments[0].ops.size());
    if (probe.dtype == DType::f32) op.attributes.precision = Precision::fp32;
    const Space from = probe.kind == OpKind::copy_h2d ? Space::host : Space::device;
    const Space to = probe.kind == OpKind::copy_d2h ? Space::host : Space::device;
    for (const Shape& shape : probe.inputs)
      op.inputs.push_back(probe_operand(program, shape, probe.dtype, from, sets));
    op.outputs.push_back(probe_operand(program, probe.output, probe.dtype, to, sets));
    const std::string wrong = info(op.kind).check(program, op);
    check(wrong.empty(), "a probe's ", op.name, " ", wrong);
    program.segments[0].ops.push_back(std::move(op));
  }
  return program;  // not verified: a reload of what the host happens to hold is meant here
}

BodyOrder probe_order(const Program& program) {
  BodyOrder order, dones;
  const std::vector<Op>& ops = program.segments[0].ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    const bool copy = is_host_copy(ops[i]);
    order.push_back({copy ? StepKind::start : StepKind::run, static_cast<int>(i)});
    if (copy) dones.push_back({StepKind::done, static_cast<int>(i)});
  }
  order.insert(order.end(), dones.begin(), dones.end());
  return order;
}

}  // namespace

Schedule probe_schedule(const std::vector<ProbeOp>& ops, int64_t sets) {
  Program program = probe_program(ops, sets);
  const BodyOrder order = probe_order(program);
  return lay_out(std::move(program), {order});
}

Probe::Probe(const std::vector<ProbeOp>& ops, int64_t sets, std::shared_ptr<CpuMemory> memory) {
  schedule_ = probe_schedule(ops, sets);
  plan_ = plan_memory(schedule_);
  executor_ = std::make_unique<CpuExecutor>(schedule_, plan_, CpuOptions{}, std::move(memory));
}

std::vector<double> seconds_of(const Trace& trace, int op) {
  std::vector<double> seconds;
  for (const Span& span : trace.spans)
    if (span.kind == SpanKind::op && span.op == op) seconds.push_back(span.end - span.begin);
  return seconds;
}

Reference median_of(std::vector<double> values) {
  check(!values.empty(), "the median of no values");
  std::sort(values.begin(), values.end());
  const double median = statistics_of(values).median;
  const double range = quantile(values, 0.75) - quantile(values, 0.25);
  return {median, median > 0 ? range / median : 0};
}

ReferenceProduct::ReferenceProduct()
    : probe_({{OpKind::matmul, {{width, width}, {width, width}}, {width, width}, DType::bf16}}, 4) {
  probe_.step();  // code of the library's kernels is made at the first
}

Reference ReferenceProduct::time(double seconds) {
  std::vector<double> runs;
  for (double spent = 0; runs.empty() || spent < seconds;) {
    const Trace trace = probe_.step();
    spent += trace.seconds;
    for (const double run : seconds_of(trace, 0))
      runs.push_back(run);
  }
  return median_of(std::move(runs));
}

}  // namespace spillway
