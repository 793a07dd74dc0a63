// The accesses of one event of a body, in the order they take place.
#pragma once

#include "harness/access_map.h"

namespace spillway {

// Calls visit(kind, operand, op) for each; `op` is -1 where a tensor comes or goes. Allocation and
// release are of the whole tensor; the last of a run of dones reads what the ops of all wrote.
template <class Visit>
void for_each_access(const Schedule& schedule, int segment_index, const Event& event,
                     const Visit& visit) {
  const SegmentSchedule& segment = schedule.segments[index_of(segment_index)];
  const auto lifetimes = [&](AccessKind kind, const std::vector<TensorId>& tensors) {
    for (const TensorId id : tensors)
      visit(kind, Operand{id, Index::all()}, -1);
  };
  const auto operands = [&](AccessKind kind, const std::vector<Operand>& list, int op) {
    for (const Operand& operand : list)
      visit(kind, operand, op);
  };
  if (event.kind == EventKind::enter)
    return lifetimes(AccessKind::allocate, segment.enter_allocate);
  if (event.kind == EventKind::exit) return lifetimes(AccessKind::release, segment.exit_release);
  const std::vector<LaneStep>& lane = segment.lanes[index_of(event.lane)];
  const LaneStep& step = lane[index_of(event.position)];
  const std::vector<Op>& ops = schedule.program.segments[index_of(segment_index)].ops;
  lifetimes(AccessKind::allocate, step.allocate);
  if (step.kind == StepKind::run) {
    operands(AccessKind::read, ops[index_of(step.op)].inputs, step.op);
    operands(AccessKind::write, ops[index_of(step.op)].outputs, step.op);
  } else if (step.kind == StepKind::done) {
    for (const int op : confirmed_at(lane, index_of(event.position)))
      operands(AccessKind::read, ops[index_of(op)].outputs, op);
  }
  lifetimes(AccessKind::release, step.release);
}

// Whether the event means anything in this run: segments are entered in their first iteration and
// left in their last.
inline bool happens(const Program& program, const BodyRun& run, const Event& event) {
  if (event.kind == EventKind::enter) return run.iteration == 0;
  if (event.kind == EventKind::exit)
    return run.iteration == program.segments[index_of(run.segment)].trips - 1;
  return true;
}

}  // namespace spillway
