// When everything happens: per lane an issue order with explicit waits, one segment body at a time.
//
// The scheduler's decision for a body is one linear order of compute ops, starts and dones
// (BodyOrder). lay_out() turns orders into lanes: the compute lane runs the order itself (a start
// marks the position from which an async op may begin, a done the position where compute waits for
// it); every async op is issued on its own lane in the order of the starts.
#pragma once

#include <vector>

#include "harness/ops.h"
#include "harness/program.h"

namespace spillway {

enum class StepKind : uint8_t { run, start, done };

struct OrderItem {
  StepKind kind = StepKind::run;
  int op = 0;  // index into Segment::ops
  friend bool operator==(const OrderItem&, const OrderItem&) = default;
};
using BodyOrder = std::vector<OrderItem>;

// "The lane this stands on waits until lane `on` has finished its step `step` of this iteration."
// Every wait is within one iteration: what crosses iterations is ordered through the compute lane.
struct Wait {
  Lane on = Lane::compute;
  int step = 0;  // index into SegmentSchedule::lanes[on]
  friend bool operator==(const Wait&, const Wait&) = default;
};

// One position on a lane. `allocate` tensors come into being (bytes undefined) just before it and
// `release` tensors are gone just after it; only the compute lane has either. To the race check and
// to a poisoned run both are writes of the whole tensor.
struct LaneStep {
  StepKind kind = StepKind::run;
  int op = 0;
  std::vector<Wait> waits;
  std::vector<TensorId> allocate, release;
};

struct SegmentSchedule {
  std::vector<LaneStep> lanes[lane_count];
  // Extent::step tensors: on the compute lane before the first iteration, after the last.
  std::vector<TensorId> enter_allocate, exit_release;
};

// Owns the Program it schedules (after sharding, policy, pipelining and merging of neighbouring
// segments of trip count 1).
struct Schedule {
  Program program;
  std::vector<SegmentSchedule> segments;  // one per program segment
};

// Ops that compute knows to be over once it has passed `position` of its lane: at the last of a run
// of dones all of that run, else none. A done reads what its op wrote: its wait is therefore needed
// even where nothing else on the compute lane touches those bytes (a write-back with LHS off).
std::vector<int> confirmed_at(const std::vector<LaneStep>& compute, size_t position);

// When a host copy may begin, beyond its turn on the lane of its direction.
enum class Streams : uint8_t {
  // One stream a direction. A copy waits for its start, with it for all of compute before it (as in
  // XLA), unless what it needs is known to be over without.
  position,
  // One stream a direction. A copy waits for what it depends on in its iteration, the ops it comes
  // after and the allocation of what it writes; if nothing, for the iteration's first step.
  precise,
  // As XLA has it while host copies are dealt out to 4 side streams in turn: a copy waits for its
  // start, always, and for the copy before it on its side stream, which may go the other way.
  xla,
};
const char* name_of(Streams streams);

// Builds lanes from one order per segment: lifetimes of local tensors run from just before the
// first position that touches them (for an async op: its start) to just after the last one (for an
// async op: its done); neighbouring starts allocate before the first of them, neighbouring dones
// release after the last. Every async op waits for its start, host copies as `streams` has it, and
// every done for its op; drop_implied_waits() (race.h) removes those that others imply. Throws
// std::logic_error when an order is not a permutation of the body or breaks a dependency.
Schedule lay_out(Program program, const std::vector<BodyOrder>& orders,
                 Streams streams = Streams::position);

// First and last segment that touch a tensor of Extent::step, by TensorId; -1 for other tensors.
struct StepLife {
  int first = -1, last = -1;
};
std::vector<StepLife> step_lives(const Program& program);

// before[j] lists the ops of the body that must be finished before op j begins (read after write,
// write after read, write after write on overlapping slices in one iteration, program order).
std::vector<std::vector<int>> dependencies(const Program& program, const Segment& segment);

// Joins every run of neighbouring segments of trip count 1 into one body, as XLA's entry
// computation is one.
Program merge_straight_line(Program program);

std::string dump(const Schedule& schedule);

}  // namespace spillway
