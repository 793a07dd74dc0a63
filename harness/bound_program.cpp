// Everything about a step that does not change from one training step to the next.
#include "harness/bound_program.h"

#include "harness/ops/operands.h"

namespace spillway {
namespace {

std::vector<Buffer> buffers_for(const Program& program, const std::vector<Operand>& operands) {
  std::vector<Buffer> buffers;
  for (const Operand& operand : operands)
    buffers.push_back({nullptr, shape_of(program, operand), program.at(operand.tensor).dtype});
  return buffers;
}

void point(std::vector<Buffer>& buffers, const std::vector<Operand>& operands, const Arenas& arenas,
           int64_t iteration) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    const ByteRange range = range_of(*arenas.program, operands[i], iteration);
    buffers[i].data = arenas.address(operands[i].tensor) + range.begin;
  }
}

// Addresses are affine in the iteration, so the first and the last one bound them all.
void check_range(const Program& program, const Segment& segment, const Op& op,
                 const Operand& operand) {
  for (const int64_t iteration : {int64_t{0}, segment.trips - 1}) {
    const ByteRange range = range_of(program, operand, iteration);
    const Tensor& tensor = program.at(operand.tensor);
    check(range.begin >= 0 && range.begin + range.size <= tensor.bytes(), "op ", op.name,
          " of segment ", segment.name, " leaves tensor ", tensor.name, " in iteration ",
          iteration);
  }
}

BoundStep bind_step(const Schedule& schedule, size_t segment_index, const LaneStep& step) {
  const Segment& segment = schedule.program.segments[segment_index];
  BoundStep bound;
  bound.step = &step;
  bound.op = &segment.ops.at(static_cast<size_t>(step.op));
  bound.info = &info(bound.op->kind);
  bound.inputs = buffers_for(schedule.program, bound.op->inputs);
  bound.outputs = buffers_for(schedule.program, bound.op->outputs);
  for (const auto* operands : {&bound.op->inputs, &bound.op->outputs}) {
    for (const Operand& operand : *operands) {
      check_range(schedule.program, segment, *bound.op, operand);
    }
  }
  const auto category = is_host_copy(*bound.op) ? RangeCategory::copy : RangeCategory::op;
  bound.range = register_range(category, range_name(category, segment.name, bound.op->name));
  return bound;
}

void bind_write_backs(const SegmentSchedule& schedule, const Segment& segment, BoundSegment& body) {
  const std::vector<LaneStep>& compute = schedule.lanes[index_of(Lane::compute)];
  for (size_t k = 0; k < compute.size(); ++k)
    for (const int op : confirmed_at(compute, k))
      if (segment.ops[index_of(op)].kind == OpKind::copy_d2h)
        body.lanes[index_of(Lane::compute)][k].write_backs.push_back(op);
}

}  // namespace

void BoundStep::point_at(const Arenas& arenas, int64_t iteration) {
  point(inputs, op->inputs, arenas, iteration);
  point(outputs, op->outputs, arenas, iteration);
}

int64_t BoundProgram::target(const Wait& wait, size_t segment, int64_t iteration,
                             int64_t training_step) const {
  const auto on = static_cast<size_t>(wait.on);
  const BoundSegment& body = segments[segment];
  const auto length = static_cast<int64_t>(body.lanes[on].size());
  return training_step * steps[on] + body.first[on] + iteration * length + wait.step + 1;
}

BoundProgram bind(const Schedule& schedule, const Arenas& arenas) {
  const Program& program = schedule.program;
  check(schedule.segments.size() == program.segments.size(), "a schedule of ",
        schedule.segments.size(), " segments for a program of ", program.segments.size());
  check(arenas.plan->offset.size() == program.tensors.size(), "a plan of ",
        arenas.plan->offset.size(), " tensors for a program of ", program.tensors.size());
  BoundProgram bound;
  bound.range = register_range(RangeCategory::step, range_name(RangeCategory::step));
  for (size_t s = 0; s < program.segments.size(); ++s) {
    const Segment& segment = program.segments[s];
    BoundSegment body;
    body.first = bound.steps;
    body.range =
        register_range(RangeCategory::segment, range_name(RangeCategory::segment, segment.name));
    for (size_t lane = 0; lane < lane_count; ++lane) {
      for (const LaneStep& step : schedule.segments[s].lanes[lane]) {
        body.lanes[lane].push_back(bind_step(schedule, s, step));
      }
      if (lane == index_of(Lane::compute)) bind_write_backs(schedule.segments[s], segment, body);
      bound.steps[lane] += segment.trips * static_cast<int64_t>(body.lanes[lane].size());
    }
    bound.segments.push_back(std::move(body));
  }
  return bound;
}

}  // namespace spillway
