// Ops as a step meets them: operands where the op before left them, workers awake, values real.
#include <algorithm>
#include <chrono>
#include <numeric>

#include "harness/cpu/copy_load.h"
#include "harness/error.h"
#include "harness/measurement.h"
#include "sweeps/calibrate_parts.h"
#include "sweeps/link.h"

namespace spillway {
namespace {

constexpr int least_steps = 5;
constexpr int most_steps = 40;

// Of a proxy layer's weights and activations even one is more than caches hold.
constexpr int64_t layers_measured = 2;

Point measured_point(const CalibrationPoint& wanted) {
  Point point;
  point.model = wanted.model;
  point.micro_batch = wanted.micro_batch;
  point.policy = "full";
  point.layers = layers_to_probe(load_model(wanted.model), layers_measured);
  return point;
}

const Op& op_of(const Schedule& schedule, const Span& span) {
  return schedule.program.segments[index_of(span.segment)].ops[index_of(span.op)];
}

void add_sample(OpSamples& samples, const OpSize& size, double seconds) {
  auto found = std::find_if(samples.begin(), samples.end(),
                            [&](const auto& entry) { return entry.first == size; });
  if (found == samples.end()) found = samples.insert(samples.end(), {size, {}});
  found->second.push_back(seconds);
}

// One sample a step: the mean over its ops of one size. Ops' times add up to a step's, which medians
// of single ops, some of them interrupted, would not.
void add_samples(OpSamples& samples, const Schedule& schedule, const Trace& trace) {
  OpSamples of_step;
  for (const Span& span : trace.spans)
    if (span.kind == SpanKind::op && span.lane == Lane::compute)
      add_sample(of_step, size_of(schedule.program, op_of(schedule, span)), span.end - span.begin);
  for (const auto& [size, seconds] : of_step) {
    const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    add_sample(samples, size, sum / static_cast<double>(seconds.size()));
  }
}

double gap_of(const Trace& trace) {
  const auto ops = std::count_if(trace.spans.begin(), trace.spans.end(), [](const Span& span) {
    return span.kind == SpanKind::op && span.lane == Lane::compute;
  });
  return std::max(0.0, compute_lane_times(trace).idle) / static_cast<double>(ops);
}

// Seconds of one step in products and attention, and in everything else.
struct Split {
  double products = 0, stream = 0;
};

Split split_of(const Schedule& schedule, const Trace& trace) {
  Split split;
  for (const Span& span : trace.spans) {
    if (span.kind != SpanKind::op || span.lane != Lane::compute) continue;
    const Op& op = op_of(schedule, span);
    const OpCost cost = info(op.kind).cost(schedule.program, op);
    const bool product = cost.matmul_flops + cost.attention_flops > 0;
    (product ? split.products : split.stream) += span.end - span.begin;
  }
  return split;
}

struct Load {
  CopyLanes lanes;
  double bytes_per_second;  // each lane; 0: as fast as it goes
};
constexpr Load loads[] = {{CopyLanes::d2h, 0.5e9}, {CopyLanes::d2h, 1e9},  {CopyLanes::d2h, 2e9},
                          {CopyLanes::d2h, 4e9},   {CopyLanes::h2d, 2e9},  {CopyLanes::both, 0.5e9},
                          {CopyLanes::both, 1e9},  {CopyLanes::both, 2e9}, {CopyLanes::both, 4e9},
                          {CopyLanes::d2h, 0},     {CopyLanes::both, 0}};
constexpr int64_t load_bytes = int64_t{4} << 20;  // a copy: as a proxy's layer moves

// A step beside copies; `moved` of the row is theirs.
Split step_beside(CpuExecutor& executor, const Schedule& schedule, CpuMemory& arenas,
                  Contention& row) {
  CopyLoad copies(arenas, row.lanes, row.paced, load_bytes);
  const int64_t moved_before = copies.moved();
  const Trace trace = executor.step();
  row.moved = static_cast<double>(copies.moved() - moved_before) / trace.seconds;
  return split_of(schedule, trace);
}

// Steps with and without copies in turn, so that both see the same machine.
void measure_contention(CpuExecutor& executor, const Schedule& schedule,
                        std::vector<Contention>& rows) {
  CpuMemory arenas;
  arenas.reserve(CopyLoad::arena_bytes, CopyLoad::arena_bytes);
  Split before = split_of(schedule, executor.step());
  for (const Load& load : loads) {
    Contention row{.lanes = load.lanes, .paced = load.bytes_per_second};
    const Split with = step_beside(executor, schedule, arenas, row);
    const Split after = split_of(schedule, executor.step());
    row.products = 2 * with.products / (before.products + after.products);
    row.stream = 2 * with.stream / (before.stream + after.stream);
    rows.push_back(row);
    before = after;
  }
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::vector<CalibrationPoint> calibration_points(const std::vector<std::string>& models) {
  std::vector<CalibrationPoint> points;
  for (const std::string& model : models) {
    const int64_t own = load_model(model).micro_batch.value_or(1);
    points.push_back({model, own, true});
    points.push_back({model, 2 * own, false});
    if (own > 1) points.push_back({model, own / 2, false});
  }
  return points;
}

OpGroup measure_ops(Calibrator& calibrator, const CalibrationPoint& point, double seconds,
                    std::vector<double>& gaps, std::vector<Contention>& contention) {
  Settings settings;
  settings.memory = calibrator.memory;
  const Prepared prepared = prepare(measured_point(point), settings);
  if (prepared.status != Status::ok)
    throw RunError(text("calibrate: ", point.model, " at micro batch ", point.micro_batch,
                        " does not fit: ", prepared.reason));
  CpuExecutor executor(prepared.schedule, prepared.plan, {}, calibrator.memory);
  executor.step();
  OpGroup group;
  const std::string what =
      text(point.model, ", micro batch ", point.micro_batch, ", ", *prepared.point.layers,
           " layers", point.contention ? ", with and without copies" : "");
  group.reference = calibrator.between_references(what, [&](const auto& time_again) {
    const double begin = now_seconds();
    for (int step = 0; step < most_steps; ++step) {
      if (step >= least_steps && now_seconds() - begin > seconds) break;
      const Trace trace = executor.step();
      add_samples(group.samples, prepared.schedule, trace);
      gaps.push_back(gap_of(trace));
      time_again();
    }
    if (point.contention) measure_contention(executor, prepared.schedule, contention);
  });
  return group;
}

OpGroup measure_other_ops(Calibrator& calibrator) {
  constexpr int64_t mib = int64_t{1} << 20, wide = 1024;
  std::vector<ProbeOp> ops = {
      {OpKind::matmul, {{wide, wide}, {wide, wide}}, {wide, wide}, DType::f32}};
  for (const int64_t megabytes : {1, 4, 16, 32})
    ops.push_back({OpKind::copy_d2d, {{megabytes * mib / 2}}, {megabytes * mib / 2}, DType::bf16});
  OpGroup group;
  group.reference =
      calibrator.between_references("device copies, fp32 product", [&](const auto& time_again) {
        Probe probe(ops, 4, calibrator.memory);
        probe.step();
        for (int step = 0; step < least_steps; ++step) {
          const Trace trace = probe.step();
          for (size_t i = 0; i < ops.size(); ++i)
            for (const double run : seconds_of(trace, static_cast<int>(i)))
              add_sample(group.samples, size_of(probe.program(), probe.op(static_cast<int>(i))),
                         run);
          time_again();
        }
      });
  return group;
}

}  // namespace spillway
