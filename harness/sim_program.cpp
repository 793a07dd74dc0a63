#include "harness/sim_program.h"

#include <cmath>

namespace spillway {
namespace {

void add_lane(const SegmentSchedule& segment, size_t lane, size_t first_work, SimProgram& program) {
  for (const LaneStep& step : segment.lanes[lane]) {
    SimStep flat;
    flat.runs = step.kind == StepKind::run;
    flat.op = step.op;
    flat.work = first_work + index_of(step.op);
    flat.first_wait = program.waits.size();
    for (const Wait& wait : step.waits) {
      const LaneStep& target = segment.lanes[index_of(wait.on)][index_of(wait.step)];
      program.waits.push_back({index_of(wait.on), wait.step, target.op});
    }
    flat.end_wait = program.waits.size();
    program.spans += 1 + step.waits.size();
    program.steps.push_back(flat);
  }
}

}  // namespace

SimProgram flatten(const Schedule& schedule, const Machine& machine, const SimOptions& options) {
  SimProgram result;
  std::array<int64_t, lane_count> finished{};
  for (size_t s = 0; s < schedule.segments.size(); ++s) {
    const Segment& segment = schedule.program.segments[s];
    SimSegment& flat = result.segments.emplace_back();
    flat.trips = segment.trips;
    for (size_t lane = 0; lane < lane_count; ++lane) {
      const size_t steps = schedule.segments[s].lanes[lane].size();
      flat.lanes[lane] = {result.steps.size(), steps, finished[lane]};
      finished[lane] += segment.trips * static_cast<int64_t>(steps);
      add_lane(schedule.segments[s], lane, result.demands.size(), result);
    }
    for (const Op& op : segment.ops) {
      result.demands.push_back(demand_of(schedule.program, op, machine, options));
      const OpCost cost = info(op.kind).cost(schedule.program, op);
      result.moved.push_back(std::llround(cost.link_bytes + cost.group_bytes));
    }
  }
  return result;
}

}  // namespace spillway
