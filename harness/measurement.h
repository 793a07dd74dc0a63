// From traces to figures, as pure functions. No clocks here, no printing.
#pragma once

#include <string>
#include <vector>

#include "harness/schedule.h"
#include "harness/trace.h"

namespace spillway {

struct Statistics {
  double median = 0, min = 0, max = 0;
  int64_t n = 0;
};
// The median of an even number of values is the mean of the middle two. values must not be empty.
Statistics statistics_of(std::vector<double> values);
// Linear between neighbours: q = 0 the smallest, 0.5 the median, 1 the largest. values sorted, not
// empty.
double quantile(const std::vector<double>& sorted, double q);

// Span by span what a span with repeats stands for, in the order of the first of each.
std::vector<Span> every_span(const Trace& trace);
// Of these, those that lie in part between two times, whole.
std::vector<Span> spans_between(const Trace& trace, double begin, double end);

struct TimeInterval {
  double begin = 0, end = 0;  // seconds since the step began
};
// When the compute lane was in one iteration of a segment, from its first span to its last; empty
// (end < begin) where it has none.
TimeInterval interval_of(const Trace& trace, int segment, int64_t iteration);

// How a lane spent one step.
struct LaneTimes {
  double busy = 0;     // inside ops
  double waiting = 0;  // for another lane; simulated: on the compute lane alone
  double idle = 0;     // neither
};
LaneTimes lane_times(const Trace& trace, Lane lane);
LaneTimes compute_lane_times(const Trace& trace);

// What the compute lane stood waiting for on another lane, op by op.
struct WaitTime {
  int segment = 0, op = 0;
  double seconds = 0;
};
// A wait is charged to the ops that ran on the awaited lane meanwhile; what is left of it (queueing,
// wake-up) to the op that was awaited. By segment, then op.
std::vector<WaitTime> waits_for(const Trace& trace, Lane lane);

// One activation name in one direction, over one step.
struct Transfer {
  std::string name;
  Lane direction = Lane::d2h;
  int64_t bytes = 0;
  double seconds = 0;          // copy-lane busy time
  double exposed_seconds = 0;  // of it, while the compute lane stood waiting for this lane
};
// Exposed as waits_for() charges it. Sorted by name, then direction.
std::vector<Transfer> transfers_of(const Schedule& schedule, const Trace& trace);

// Bytes the schedule plans to move in a step on one lane: those of a host copy, those of the full
// buffer of a collective.
int64_t planned_bytes(const Schedule& schedule, Lane lane);
int64_t planned_bytes(const Schedule& schedule, Lane lane, int segment);  // of it, in one segment

// Seconds of compute-lane op time per op kind, in order of first appearance.
std::vector<std::pair<OpKind, double>> seconds_by_kind(const Schedule& schedule,
                                                       const Trace& trace);

// Mean seconds of every op [segment][op] over all iterations of all steps, on its own lane and
// beside whatever else ran.
std::vector<std::vector<double>> mean_op_seconds(const Schedule& schedule,
                                                 const std::vector<Trace>& traces);

// The segment of a pass with the most iterations, the first of equal ones: its layers stand for the
// model's. -1 where the program has no such pass.
int longest_segment(const Program& program, Pass pass);

// Wall seconds of segment `segment`: from its first compute-lane span to its last.
double segment_seconds(const Trace& trace, int segment);

}  // namespace spillway
