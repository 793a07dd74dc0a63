// lay_out(): from one linear order per body to lanes, waits and lifetimes. Deciding on an order is
// the schedulers' work (offload/); dropping superfluous waits is the race check's (race.h).
#include "harness/schedule.h"

#include <algorithm>

#include "harness/error.h"
#include "harness/start_waits.h"

namespace spillway {
namespace {

// Positions of an op on the compute lane: where it may begin and where it is known to be finished.
struct Interval {
  int begin = -1, end = -1;
};

// Checks that the order runs every op once, starts before done, and returns the positions.
std::vector<Interval> positions_of(const Segment& segment, const BodyOrder& order) {
  std::vector<Interval> intervals(segment.ops.size());
  for (size_t k = 0; k < order.size(); ++k) {
    const auto [kind, op] = order[k];
    check(op >= 0 && index_of(op) < intervals.size(), "segment \"", segment.name, "\": position ",
          k, " names op ", op, " of ", intervals.size());
    const Op& body_op = segment.ops[index_of(op)];
    const bool async = lane_of(body_op) != Lane::compute;
    check(async == (kind != StepKind::run), "segment \"", segment.name, "\", op \"", body_op.name,
          "\": expected ", async ? "a start and a done" : "a run", " in the order");
    Interval& interval = intervals[index_of(op)];
    check(kind == StepKind::done ? interval.begin >= 0 && interval.end < 0 : interval.begin < 0,
          "segment \"", segment.name, "\", op \"", body_op.name,
          "\": started twice, or done before its start");
    if (kind != StepKind::done) interval.begin = static_cast<int>(k);
    if (kind != StepKind::start) interval.end = static_cast<int>(k);
  }
  for (size_t op = 0; op < intervals.size(); ++op) {
    check(intervals[op].end >= 0, "segment \"", segment.name, "\", op \"", segment.ops[op].name,
          "\": missing from the order");
  }
  return intervals;
}

// Ops of one asynchronous lane follow each other, so a start after the other's start is enough.
void check_dependencies(const Segment& segment, const std::vector<std::vector<int>>& before,
                        const std::vector<Interval>& intervals) {
  for (size_t later = 0; later < before.size(); ++later) {
    const Lane lane = lane_of(segment.ops[later]);
    for (const int earlier : before[later]) {
      const Op& op = segment.ops[index_of(earlier)];
      const bool same_queue = lane != Lane::compute && lane == lane_of(op);
      const Interval& interval = intervals[index_of(earlier)];
      check((same_queue ? interval.begin : interval.end) < intervals[later].begin, "segment \"",
            segment.name, "\": the order begins \"", segment.ops[later].name, "\" before \"",
            op.name, "\" is finished");
    }
  }
}

void add_lanes(const Segment& segment, const BodyOrder& order, SegmentSchedule& result) {
  std::vector<int> place(segment.ops.size(), -1);  // on the op's own lane
  std::vector<LaneStep>& compute = result.lanes[index_of(Lane::compute)];
  compute.reserve(order.size());
  for (const auto& [kind, op] : order) {
    const Lane lane = lane_of(segment.ops[index_of(op)]);
    LaneStep step{kind, op, {}, {}, {}};
    if (kind == StepKind::start) {
      std::vector<LaneStep>& queue = result.lanes[index_of(lane)];
      place[index_of(op)] = static_cast<int>(queue.size());
      queue.push_back(
          {StepKind::run, op, {{Lane::compute, static_cast<int>(compute.size())}}, {}, {}});
    }
    if (kind == StepKind::done) step.waits.push_back({lane, place[index_of(op)]});
    compute.push_back(std::move(step));
  }
}

// Start positions of one run of starts share the first one's allocations, done positions of one run
// of dones the last one's releases: starts then wait for one position, one done stands for all.
int first_of_starts(const BodyOrder& order, int position) {
  const auto is_start = [&](int k) { return order[index_of(k)].kind == StepKind::start; };
  while (position > 0 && is_start(position) && is_start(position - 1))
    --position;
  return position;
}

int last_of_dones(const BodyOrder& order, int position) {
  const auto is_done = [&](int k) { return order[index_of(k)].kind == StepKind::done; };
  const int last = static_cast<int>(order.size()) - 1;
  while (position < last && is_done(position) && is_done(position + 1))
    ++position;
  return position;
}

template <class Visit>
void for_each_operand(const Op& op, const Visit& visit) {
  for (const Operand& operand : op.inputs)
    visit(operand.tensor);
  for (const Operand& operand : op.outputs)
    visit(operand.tensor);
}

void add_local_lifetimes(const Program& program, const Segment& segment, const BodyOrder& order,
                         const std::vector<Interval>& intervals, SegmentSchedule& result) {
  std::vector<Interval> lives(program.tensors.size());
  for (size_t op = 0; op < segment.ops.size(); ++op) {
    for_each_operand(segment.ops[op], [&](TensorId id) {
      Interval& life = lives[index_of(id)];
      life.begin = life.begin < 0 ? intervals[op].begin : std::min(life.begin, intervals[op].begin);
      life.end = std::max(life.end, intervals[op].end);
    });
  }
  std::vector<LaneStep>& compute = result.lanes[index_of(Lane::compute)];
  for (size_t id = 0; id < lives.size(); ++id) {
    if (lives[id].begin < 0 || program.tensors[id].extent != Extent::local) continue;
    const TensorId tensor = static_cast<TensorId>(id);
    compute[index_of(first_of_starts(order, lives[id].begin))].allocate.push_back(tensor);
    compute[index_of(last_of_dones(order, lives[id].end))].release.push_back(tensor);
  }
}

// They come and go at the borders of segments.
void add_step_lifetimes(const Program& program, std::vector<SegmentSchedule>& segments) {
  const std::vector<StepLife> lives = step_lives(program);
  for (size_t id = 0; id < lives.size(); ++id) {
    if (lives[id].first < 0) continue;
    segments[index_of(lives[id].first)].enter_allocate.push_back(static_cast<TensorId>(id));
    segments[index_of(lives[id].last)].exit_release.push_back(static_cast<TensorId>(id));
  }
}

}  // namespace

std::vector<StepLife> step_lives(const Program& program) {
  std::vector<StepLife> lives(program.tensors.size());
  for (size_t s = 0; s < program.segments.size(); ++s) {
    for (const Op& op : program.segments[s].ops) {
      for_each_operand(op, [&](TensorId id) {
        if (program.at(id).extent != Extent::step) return;
        StepLife& life = lives[index_of(id)];
        if (life.first < 0) life.first = static_cast<int>(s);
        life.last = static_cast<int>(s);
      });
    }
  }
  return lives;
}

std::vector<int> confirmed_at(const std::vector<LaneStep>& compute, size_t position) {
  const auto is_done = [&](size_t k) {
    return k < compute.size() && compute[k].kind == StepKind::done;
  };
  std::vector<int> ops;
  if (is_done(position + 1)) return ops;
  for (size_t k = position + 1; k-- > 0 && is_done(k);)
    ops.push_back(compute[k].op);
  return ops;
}

const char* name_of(Streams streams) {
  switch (streams) {
    case Streams::position:
      return "position";
    case Streams::precise:
      return "precise";
    case Streams::xla:
      return "xla";
  }
  return "?";
}

Schedule lay_out(Program program, const std::vector<BodyOrder>& orders, Streams streams) {
  check(orders.size() == program.segments.size(), "expected one order per segment, found ",
        orders.size(), " orders for ", program.segments.size(), " segments");
  Schedule schedule;
  schedule.segments.resize(orders.size());
  for (size_t s = 0; s < orders.size(); ++s) {
    const Segment& segment = program.segments[s];
    const std::vector<Interval> intervals = positions_of(segment, orders[s]);
    const std::vector<std::vector<int>> before = dependencies(program, segment);
    check_dependencies(segment, before, intervals);
    add_lanes(segment, orders[s], schedule.segments[s]);
    add_local_lifetimes(program, segment, orders[s], intervals, schedule.segments[s]);
    if (streams == Streams::precise) wait_for_producers(segment, before, schedule.segments[s]);
    if (streams == Streams::xla) wait_for_side_streams(segment, schedule.segments[s]);
  }
  add_step_lifetimes(program, schedule.segments);
  schedule.program = std::move(program);
  return schedule;
}

}  // namespace spillway
