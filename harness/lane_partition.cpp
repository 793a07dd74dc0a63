// Partition of the compute lane.
#include "harness/lane_partition.h"

#include <algorithm>
#include <array>
#include <map>

namespace spillway {
namespace {

using SpanList = std::vector<Span>;

// Ops of each lane in the order they ran; on one lane no two at a time.
std::array<SpanList, lane_count> ops_by_lane(const Trace& trace) {
  std::array<SpanList, lane_count> lanes;
  for (const Span& span : every_span(trace))
    if (span.kind == SpanKind::op) lanes[index_of(span.lane)].push_back(span);
  for (SpanList& lane : lanes)
    std::sort(lane.begin(), lane.end(),
              [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return lanes;
}

// What of `within` the ops of a lane fill, op by op.
std::vector<TimeInterval> filled(const SpanList& lane, const TimeInterval& within) {
  std::vector<TimeInterval> found;
  auto span = std::partition_point(lane.begin(), lane.end(),
                                   [&](const Span& s) { return s.end <= within.begin; });
  for (; span != lane.end() && span->begin < within.end; ++span)
    found.push_back({std::max(within.begin, span->begin), std::min(within.end, span->end)});
  return found;
}

// Adds to `time` what passed beside other lanes, between any two moments at which one of them
// begins or ends an op.
void add_neighbours(const std::array<SpanList, lane_count>& lanes, const TimeInterval& within,
                    BusyTime& time) {
  std::vector<TimeInterval> copies, collectives;
  std::vector<double> moments{within.begin, within.end};
  for (size_t lane = 0; lane < lane_count; ++lane) {
    if (lane == index_of(Lane::compute)) continue;
    std::vector<TimeInterval>& kind = lane == index_of(Lane::collective) ? collectives : copies;
    for (const TimeInterval& part : filled(lanes[lane], within)) {
      kind.push_back(part);
      moments.push_back(part.begin);
      moments.push_back(part.end);
    }
  }
  std::sort(moments.begin(), moments.end());
  for (size_t i = 0; i + 1 < moments.size(); ++i) {
    const double middle = (moments[i] + moments[i + 1]) / 2, length = moments[i + 1] - moments[i];
    const auto covers = [&](const TimeInterval& part) {
      return part.begin <= middle && middle < part.end;
    };
    const bool copy = std::any_of(copies.begin(), copies.end(), covers);
    const bool collective = std::any_of(collectives.begin(), collectives.end(), covers);
    if (copy && collective) time.beside_both += length;
    if (copy && !collective) time.beside_copies += length;
    if (!copy && collective) time.beside_collectives += length;
  }
}

}  // namespace

LanePartition partition_compute_lane(const Trace& trace) {
  const std::array<SpanList, lane_count> lanes = ops_by_lane(trace);
  std::map<std::pair<int, int>, BusyTime> busy;
  for (const Span& span : lanes[index_of(Lane::compute)]) {
    BusyTime& time = busy[{span.segment, span.op}];
    time.segment = span.segment;
    time.op = span.op;
    time.runs += 1;
    time.seconds += span.end - span.begin;
    add_neighbours(lanes, {span.begin, span.end}, time);
  }
  LanePartition partition{{}, {}, compute_lane_times(trace).idle};
  for (const auto& [key, time] : busy)
    partition.busy.push_back(time);
  for (size_t lane = 0; lane < lane_count; ++lane)
    for (const WaitTime& wait : waits_for(trace, static_cast<Lane>(lane)))
      partition.waits.push_back(wait);
  return partition;
}

}  // namespace spillway
