// From traces to figures.
#include "harness/measurement.h"

#include <algorithm>
#include <limits>
#include <map>

#include "harness/error.h"

namespace spillway {

Statistics statistics_of(std::vector<double> values) {
  check(!values.empty(), "statistics of no values");
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const double median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return {median, values.front(), values.back(), static_cast<int64_t>(n)};
}

LaneTimes compute_lane_times(const Trace& trace) {
  LaneTimes times;
  for (const Span& span : trace.spans) {
    if (span.lane != Lane::compute) continue;
    (span.kind == SpanKind::op ? times.busy : times.waiting) += span.end - span.begin;
  }
  times.idle = trace.seconds - times.busy - times.waiting;
  return times;
}

namespace {

const Op& op_of(const Schedule& schedule, const Span& span) {
  return schedule.program.segments[static_cast<size_t>(span.segment)]
      .ops[static_cast<size_t>(span.op)];
}

using TransferKey = std::pair<std::string, Lane>;

// Copy spans of one lane in the order they ran.
std::vector<const Span*> copies_on(const Trace& trace, Lane lane) {
  std::vector<const Span*> copies;
  for (const Span& span : trace.spans)
    if (span.kind == SpanKind::op && span.lane == lane) copies.push_back(&span);
  std::sort(copies.begin(), copies.end(),
            [](const Span* a, const Span* b) { return a->begin < b->begin; });
  return copies;
}

// Charges one wait of the compute lane to the copies running meanwhile.
void charge(const Schedule& schedule, const Span& wait, const std::vector<const Span*>& copies,
            std::map<TransferKey, Transfer>& transfers) {
  double left = wait.end - wait.begin;
  auto copy = std::partition_point(copies.begin(), copies.end(),
                                   [&](const Span* c) { return c->end <= wait.begin; });
  for (; copy != copies.end() && (*copy)->begin < wait.end; ++copy) {
    const double overlap = std::min(wait.end, (*copy)->end) - std::max(wait.begin, (*copy)->begin);
    transfers[{op_of(schedule, **copy).attributes.activation, wait.on}].exposed_seconds += overlap;
    left -= overlap;
  }
  transfers[{op_of(schedule, wait).attributes.activation, wait.on}].exposed_seconds += left;
}

}  // namespace

std::vector<Transfer> transfers_of(const Schedule& schedule, const Trace& trace) {
  std::map<TransferKey, Transfer> transfers;
  for (const Span& span : trace.spans) {
    if (span.kind != SpanKind::op || !is_host_copy(op_of(schedule, span))) continue;
    const Op& op = op_of(schedule, span);
    Transfer& transfer = transfers[{op.attributes.activation, span.lane}];
    transfer.bytes += range_of(schedule.program, op.inputs.front(), span.iteration).size;
    transfer.seconds += span.end - span.begin;
  }
  for (const Lane lane : {Lane::d2h, Lane::h2d}) {
    const std::vector<const Span*> copies = copies_on(trace, lane);
    for (const Span& span : trace.spans)
      if (span.kind == SpanKind::wait && span.lane == Lane::compute && span.on == lane)
        charge(schedule, span, copies, transfers);
  }
  std::vector<Transfer> result;
  for (auto& [key, transfer] : transfers) {
    transfer.name = key.first;
    transfer.direction = key.second;
    result.push_back(transfer);
  }
  return result;
}

int64_t planned_bytes(const Schedule& schedule, Lane lane, int segment_index) {
  const Segment& segment = schedule.program.segments[index_of(segment_index)];
  int64_t bytes = 0;
  for (const Op& op : segment.ops)
    if (lane_of(op) == lane)
      bytes += segment.trips * range_of(schedule.program, op.inputs.front(), 0).size;
  return bytes;
}

int64_t planned_bytes(const Schedule& schedule, Lane lane) {
  int64_t bytes = 0;
  for (size_t i = 0; i < schedule.program.segments.size(); ++i)
    bytes += planned_bytes(schedule, lane, static_cast<int>(i));
  return bytes;
}

int longest_segment(const Program& program, Pass pass) {
  int longest = -1;
  for (size_t i = 0; i < program.segments.size(); ++i) {
    const Segment& segment = program.segments[i];
    if (segment.pass != pass) continue;
    if (longest < 0 || segment.trips > program.segments[index_of(longest)].trips)
      longest = static_cast<int>(i);
  }
  return longest;
}

std::vector<std::pair<OpKind, double>> seconds_by_kind(const Schedule& schedule,
                                                       const Trace& trace) {
  std::vector<std::pair<OpKind, double>> result;
  for (const Span& span : trace.spans) {
    if (span.kind != SpanKind::op || span.lane != Lane::compute) continue;
    const OpKind kind = op_of(schedule, span).kind;
    auto row = std::find_if(result.begin(), result.end(),
                            [&](const auto& entry) { return entry.first == kind; });
    if (row == result.end()) row = result.insert(result.end(), {kind, 0});
    row->second += span.end - span.begin;
  }
  return result;
}

double segment_seconds(const Trace& trace, int segment) {
  double begin = std::numeric_limits<double>::infinity(), end = 0;
  for (const Span& span : trace.spans) {
    if (span.segment != segment || span.lane != Lane::compute) continue;
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  return end > begin ? end - begin : 0;
}

}  // namespace spillway
