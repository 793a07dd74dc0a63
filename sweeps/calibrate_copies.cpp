// Copy lanes by themselves, and what starting and awaiting work costs.
#include <algorithm>
#include <chrono>
#include <set>

#include "harness/thread_pool.h"
#include "sweeps/calibrate_parts.h"

namespace spillway {
namespace {

// Of the smallest copies: more is latency than bytes.
constexpr int64_t latency_bytes = 4096;
// Bytes one lane moves in a measurement, and the most sets of operands for it.
constexpr int64_t bytes_in_turn = int64_t{128} << 20;
constexpr int64_t most_sets = 256;
constexpr int repeats = 5;

// Bytes of every host copy that a model's offloading policy makes, at the micro batches calibrated.
void add_sizes_moved(std::set<int64_t>& sizes, const CalibrationPoint& wanted) {
  Point point;
  point.model = wanted.model;
  point.micro_batch = wanted.micro_batch;
  const ModelConfig config = load_model(wanted.model);
  point.policy = config.proxy_of ? config.proxy_of->policy : "minimal_offloaded";
  const Prepared prepared = plan_point(point, {});
  for (const Segment& segment : prepared.schedule.program.segments)
    for (const Op& op : segment.ops)
      if (is_host_copy(op)) sizes.insert(range_of(prepared.schedule.program, op.inputs[0], 0).size);
}

std::vector<ProbeOp> copies_of(CopyLanes lanes, int64_t bytes) {
  const Shape shape = {std::max<int64_t>(1, bytes / bytes_of(DType::bf16))};
  std::vector<ProbeOp> ops;
  if (lanes != CopyLanes::h2d) ops.push_back({OpKind::copy_d2h, {shape}, shape, DType::bf16});
  if (lanes != CopyLanes::d2h) ops.push_back({OpKind::copy_h2d, {shape}, shape, DType::bf16});
  return ops;
}

CopyRate copy_rate(CopyLanes lanes, int64_t bytes, const std::shared_ptr<CpuMemory>& memory) {
  const std::vector<ProbeOp> ops = copies_of(lanes, bytes);
  Probe probe(ops, std::clamp<int64_t>(bytes_in_turn / bytes, 2, most_sets), memory);
  probe.step();
  std::vector<double> seconds;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const Trace trace = probe.step();
    for (size_t i = 0; i < ops.size(); ++i)
      for (const double run : seconds_of(trace, static_cast<int>(i)))
        seconds.push_back(run);
  }
  const Reference median = median_of(std::move(seconds));
  return {lanes, bytes, static_cast<double>(bytes) / median.seconds, median.spread};
}

// A start and a wait around every copy: the wait begins when the start has been passed.
void measure_latencies(const std::shared_ptr<CpuMemory>& memory, Overheads& overheads) {
  Probe probe(copies_of(CopyLanes::d2h, latency_bytes), most_sets, memory);
  probe.step();
  std::vector<double> starts = {0}, ends = {0};  // a wait too short to be recorded costs nothing
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const Trace trace = probe.step();
    std::map<int64_t, const Span*> waits;
    for (const Span& span : trace.spans)
      if (span.kind == SpanKind::wait && span.lane == Lane::compute) waits[span.iteration] = &span;
    for (const Span& span : trace.spans) {
      if (span.kind != SpanKind::op || waits.count(span.iteration) == 0) continue;
      const Span& wait = *waits[span.iteration];
      starts.push_back(std::max(0.0, span.begin - wait.begin));
      ends.push_back(std::max(0.0, wait.end - span.end));
    }
  }
  overheads.copy_start = median_of(std::move(starts)).seconds;
  overheads.copy_end = median_of(std::move(ends)).seconds;
}

double pool_start() {
  constexpr int runs = 2000;
  ThreadPool pool(usable_cpus());
  std::vector<double> seconds;
  for (int run = 0; run < runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    pool.run(pool.threads(), [](int64_t, int) {});
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    seconds.push_back(taken.count());
  }
  return median_of(std::move(seconds)).seconds;
}

}  // namespace

void measure_copies(Calibrator& calibrator, Rates& rates) {
  std::set<int64_t> sizes = {int64_t{1} << 20, int64_t{4} << 20};
  for (const CalibrationPoint& point : calibration_points(calibrator.options.models))
    add_sizes_moved(sizes, point);
  const auto work = [&](const auto& time_again) {
    for (const int64_t bytes : sizes)
      for (const CopyLanes lanes : {CopyLanes::d2h, CopyLanes::h2d, CopyLanes::both})
        rates.copies.push_back(copy_rate(lanes, bytes, calibrator.memory));
    time_again();
    measure_latencies(calibrator.memory, rates.overheads);
    rates.overheads.pool_start = pool_start();
  };
  calibrator.between_references("copy lanes, launches and waits", work);
}

}  // namespace spillway
