// From traces to figures.
#include "harness/measurement.h"

#include <algorithm>
#include <cmath>
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

double quantile(const std::vector<double>& sorted, double q) {
  check(!sorted.empty() && q >= 0 && q <= 1, "quantile ", q, " of ", sorted.size(), " values");
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

namespace {

// The n-th of the spans that one stands for.
Span repeat_of(Span span, int64_t n) {
  span.begin += static_cast<double>(n) * span.period;
  span.end += static_cast<double>(n) * span.period;
  span.iteration += n * span.period_iterations;
  span.repeats = 1;
  span.period_iterations = 0;
  span.period = 0;
  return span;
}

template <class Chosen>
std::vector<Span> every_span_if(const Trace& trace, const Chosen& chosen) {
  std::vector<Span> spans;
  for (const Span& span : trace.spans)
    for (int64_t n = 0; n < span.repeats && chosen(span); ++n)
      spans.push_back(repeat_of(span, n));
  return spans;
}

double seconds_of(const Span& span) {
  return static_cast<double>(span.repeats) * (span.end - span.begin);
}

double last_end(const Span& span) {
  return span.end + static_cast<double>(span.repeats - 1) * span.period;
}

}  // namespace

std::vector<Span> every_span(const Trace& trace) {
  return every_span_if(trace, [](const Span&) { return true; });
}

std::vector<Span> spans_between(const Trace& trace, double begin, double end) {
  // What reaches in by rounding alone lies outside.
  const double sliver = 1e-12 * trace.seconds;
  begin += sliver;
  end -= sliver;
  std::vector<Span> found;
  for (const Span& span : trace.spans) {
    int64_t n = 0;  // the first that may end later than `begin`
    if (span.repeats > 1 && begin > span.end)
      n = static_cast<int64_t>((begin - span.end) / span.period);
    for (; n < span.repeats; ++n) {
      const Span one = repeat_of(span, n);
      if (one.begin >= end) break;
      if (one.end > begin) found.push_back(one);
    }
  }
  return found;
}

TimeInterval interval_of(const Trace& trace, int segment, int64_t iteration) {
  TimeInterval interval{std::numeric_limits<double>::infinity(), 0};
  for (const Span& span : trace.spans) {
    if (span.lane != Lane::compute || span.segment != segment) continue;
    const int64_t later = iteration - span.iteration;
    const int64_t n = span.repeats > 1 ? later / span.period_iterations : 0;
    if (later != n * span.period_iterations || n < 0 || n >= span.repeats) continue;
    const Span one = repeat_of(span, n);
    interval.begin = std::min(interval.begin, one.begin);
    interval.end = std::max(interval.end, one.end);
  }
  return interval;
}

LaneTimes lane_times(const Trace& trace, Lane lane) {
  LaneTimes times;
  for (const Span& span : trace.spans)
    if (span.lane == lane)
      (span.kind == SpanKind::op ? times.busy : times.waiting) += seconds_of(span);
  times.idle = trace.seconds - times.busy - times.waiting;
  return times;
}

LaneTimes compute_lane_times(const Trace& trace) { return lane_times(trace, Lane::compute); }

namespace {

const Op& op_of(const Schedule& schedule, const Span& span) {
  return schedule.program.segments[static_cast<size_t>(span.segment)]
      .ops[static_cast<size_t>(span.op)];
}

using TransferKey = std::pair<std::string, Lane>;

// Ops on one lane in the order they ran.
std::vector<Span> ops_on(const Trace& trace, Lane lane) {
  std::vector<Span> ops = every_span_if(
      trace, [lane](const Span& span) { return span.kind == SpanKind::op && span.lane == lane; });
  std::sort(ops.begin(), ops.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return ops;
}

std::vector<Span> waits_of_compute(const Trace& trace, Lane on) {
  return every_span_if(trace, [on](const Span& span) {
    return span.kind == SpanKind::wait && span.lane == Lane::compute && span.on == on;
  });
}

// Charges one wait of the compute lane to the ops running meanwhile.
void charge(const Span& wait, const std::vector<Span>& ops,
            std::map<std::pair<int, int>, double>& seconds) {
  double left = wait.end - wait.begin;
  auto op = std::partition_point(ops.begin(), ops.end(),
                                 [&](const Span& c) { return c.end <= wait.begin; });
  for (; op != ops.end() && op->begin < wait.end; ++op) {
    const double overlap = std::min(wait.end, op->end) - std::max(wait.begin, op->begin);
    seconds[{op->segment, op->op}] += overlap;
    left -= overlap;
  }
  seconds[{wait.segment, wait.op}] += left;
}

}  // namespace

std::vector<WaitTime> waits_for(const Trace& trace, Lane lane) {
  std::map<std::pair<int, int>, double> seconds;
  const std::vector<Span> waits = waits_of_compute(trace, lane);
  if (waits.empty()) return {};
  const std::vector<Span> ops = ops_on(trace, lane);
  for (const Span& wait : waits)
    charge(wait, ops, seconds);
  std::vector<WaitTime> result;
  for (const auto& [op, stood] : seconds)
    result.push_back({op.first, op.second, stood});
  return result;
}

std::vector<Transfer> transfers_of(const Schedule& schedule, const Trace& trace) {
  std::map<TransferKey, Transfer> transfers;
  for (const Span& span : trace.spans) {
    if (span.kind != SpanKind::op || !is_host_copy(op_of(schedule, span))) continue;
    const Op& op = op_of(schedule, span);
    Transfer& transfer = transfers[{op.attributes.activation, span.lane}];
    transfer.bytes +=
        span.repeats * range_of(schedule.program, op.inputs.front(), span.iteration).size;
    transfer.seconds += seconds_of(span);
  }
  for (const Lane lane : {Lane::d2h, Lane::h2d})
    for (const WaitTime& wait : waits_for(trace, lane)) {
      const Op& op = schedule.program.segments[index_of(wait.segment)].ops[index_of(wait.op)];
      transfers[{op.attributes.activation, lane}].exposed_seconds += wait.seconds;
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
  for (const Op& op : segment.ops) {
    if (lane_of(op) != lane || lane == Lane::compute) continue;
    const OpCost cost = info(op.kind).cost(schedule.program, op);
    bytes += segment.trips * std::llround(cost.link_bytes + cost.group_bytes);
  }
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
    row->second += seconds_of(span);
  }
  return result;
}

std::vector<std::vector<double>> mean_op_seconds(const Schedule& schedule,
                                                 const std::vector<Trace>& traces) {
  std::vector<std::vector<double>> means;
  for (const Segment& segment : schedule.program.segments)
    means.emplace_back(segment.ops.size());
  for (const Trace& trace : traces)
    for (const Span& span : trace.spans)
      if (span.kind == SpanKind::op)
        means[index_of(span.segment)][index_of(span.op)] += seconds_of(span);
  for (size_t s = 0; s < means.size(); ++s)
    for (double& sum : means[s])
      sum /= static_cast<double>(schedule.program.segments[s].trips) *
             static_cast<double>(traces.size());
  return means;
}

double segment_seconds(const Trace& trace, int segment) {
  double begin = std::numeric_limits<double>::infinity(), end = 0;
  for (const Span& span : trace.spans) {
    if (span.segment != segment || span.lane != Lane::compute) continue;
    begin = std::min(begin, span.begin);
    end = std::max(end, last_end(span));
  }
  return end > begin ? end - begin : 0;
}

}  // namespace spillway
