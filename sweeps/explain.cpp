// Two points into one explanation.
#include "sweeps/explain.h"

#include <algorithm>
#include <cmath>

#include "harness/error.h"
#include "harness/measurement.h"
#include "reports/published.h"
#include "sweeps/explain_causes.h"
#include "sweeps/link.h"
#include "sweeps/memory_growth.h"

namespace spillway {

namespace {

// A point and its step.
struct Simulated {
  Prepared prepared;
  Trace trace;
  StepCauses causes;
};

Simulated simulated(const ExplainedPoint& point) {
  if (point.point.executor != ExecutorKind::sim)
    throw InputError(text("explain: '", point.label,
                          "': executor: found an executed point, expected sim: a step is taken "
                          "apart by the figures of a machine"));
  Settings settings;
  settings.fitted = point.fitted;
  if (!point.point.link.empty())
    settings.link_bytes_per_second = resolve_link(point.point, settings);
  Simulated result{prepare(point.point, settings), {}, {}};
  result.trace = std::move(run_sim(result.prepared).traces.front());
  result.causes = causes_of(result.prepared.schedule, result.prepared.machine, result.prepared.sim,
                            result.trace);
  return result;
}

void refuse_different(const Point& a, const Point& b) {
  const nlohmann::json of_a = to_json(a), of_b = to_json(b);
  for (const char* field : {"model", "layers", "micro_batch", "seq"}) {
    const nlohmann::json in_a = of_a.value(field, nlohmann::json()),
                         in_b = of_b.value(field, nlohmann::json());
    if (in_a != in_b)
      throw InputError(text("explain: ", field, ": found ", in_a.dump(), " and ", in_b.dump(),
                            ", expected the same in both points"));
  }
}

ExplainedSide side_of(const ExplainedPoint& point, const Simulated& run) {
  const double flops = static_cast<double>(run.prepared.account.flops_step_causal);
  ExplainedSide side{.label = point.label,
                     .status = name_of(run.prepared.status),
                     .reason = run.prepared.reason,
                     .config = to_json(run.prepared.point),
                     .fitted = {},
                     .step_seconds = run.trace.seconds,
                     .tflops_per_s_per_device = flops / 1e12 / run.trace.seconds,
                     .published_step_seconds = {}};
  if (point.fitted)
    side.fitted = text(point.fitted->figure, " ", fixed(point.fitted->value, 4), ", fitted on '",
                       point.fitted->on, "'");
  if (!point.published.empty())
    if (const auto rate = find_published(point.published).tflops_per_s_per_device)
      side.published_step_seconds = flops / 1e12 / *rate;
  return side;
}

// Sums of seconds differ by as much.
constexpr double rounding = 1e-11;
// What of an item differs by less is nothing to show.
constexpr double smallest_part = 1e-6;  // seconds

std::vector<ExplainedPart> parts_of(const std::map<std::string, double>& a,
                                    const std::map<std::string, double>& b) {
  std::map<std::string, ExplainedPart> by_name;
  for (const auto& [name, seconds] : a)
    by_name[name].a = seconds;
  for (const auto& [name, seconds] : b)
    by_name[name].b = seconds;
  std::vector<ExplainedPart> parts;
  for (auto& [name, part] : by_name) {
    part.name = name;
    if (std::abs(part.change()) >= smallest_part) parts.push_back(part);
  }
  std::stable_sort(parts.begin(), parts.end(), [](const ExplainedPart& x, const ExplainedPart& y) {
    return std::abs(x.change()) > std::abs(y.change());
  });
  return parts;
}

std::vector<ExplainedItem> items_of(StepCauses& a, StepCauses& b) {
  std::vector<ExplainedItem> items;
  for (const StepCauseInfo& entry : step_cause_table()) {
    ExplainedItem item{entry.key,
                       entry.name,
                       entry.meaning,
                       a.total(entry.cause),
                       b.total(entry.cause),
                       parts_of(a[entry.cause], b[entry.cause])};
    if (std::max(std::abs(item.a), std::abs(item.b)) > rounding) items.push_back(std::move(item));
  }
  return items;
}

// Bytes (of the whole buffer for collectives) and FLOPs of a step, of the ops that `counted` takes.
template <class Counted>
double amount(const Program& program, const Counted& counted) {
  double sum = 0;
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops)
      sum += static_cast<double>(segment.trips) * counted(op, info(op.kind).cost(program, op));
  return sum;
}

std::vector<ExplainedTraffic> traffic_of_step(const Program& program) {
  const auto bytes_of_kind = [&](OpKind kind, bool repeated) {
    return amount(program, [&](const Op& op, const OpCost& cost) {
      const bool counts = op.kind == kind && (!repeated || is_repeated(program, op));
      return counts ? cost.group_bytes + cost.link_bytes : 0.0;
    });
  };
  const double again = amount(program, [](const Op& op, const OpCost& cost) {
    return op.recomputed ? cost.matmul_flops + cost.attention_flops : 0.0;
  });
  const double copied = amount(program, [](const Op& op, const OpCost& cost) {
    return op.kind == OpKind::copy_d2d ? cost.bytes / 2 : 0.0;  // read and written
  });
  const auto row = [](const char* name, const char* unit, double value) {
    return ExplainedTraffic{name, unit, value, 0};
  };
  return {
      row("FLOPs computed again", "FLOP", again),
      row("copied to the host", "bytes", bytes_of_kind(OpKind::copy_d2h, false)),
      row("copied from the host", "bytes", bytes_of_kind(OpKind::copy_h2d, false)),
      row("copied on the device by rotation", "bytes", copied),
      row("gathered", "bytes", bytes_of_kind(OpKind::all_gather, false)),
      row("gathered for recomputation alone", "bytes", bytes_of_kind(OpKind::all_gather, true)),
      row("reduced and scattered", "bytes", bytes_of_kind(OpKind::reduce_scatter, false)),
      row("exchanged", "bytes", bytes_of_kind(OpKind::all_to_all, false)),
      row("exchanged for recomputation alone", "bytes", bytes_of_kind(OpKind::all_to_all, true))};
}

std::vector<ExplainedTraffic> traffic_between(const Program& a, const Program& b) {
  std::vector<ExplainedTraffic> rows = traffic_of_step(a), kept;
  const std::vector<ExplainedTraffic> other = traffic_of_step(b);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].b = other[i].a;
    if (rows[i].a != 0 || rows[i].b != 0) kept.push_back(rows[i]);
  }
  return kept;
}

std::vector<ExplainedMemory> memory_between(const Prepared& a, const Prepared& b) {
  std::vector<ExplainedMemory> memory;
  for (const MemoryCause& cause : memory_growth(a, b)) {
    const std::string number =
        cause.number == 0 ? "" : text("cause ", cause.number, " of what rotation costs");
    if (cause.base != 0 || cause.variant != 0)
      memory.push_back({cause.name, static_cast<double>(cause.base),
                        static_cast<double>(cause.variant), number});
  }
  return memory;
}

}  // namespace

Explanation explain(const ExplainedPoint& a, const ExplainedPoint& b) {
  Simulated of_a = simulated(a), of_b = simulated(b);
  refuse_different(of_a.prepared.point, of_b.prepared.point);
  Explanation result;
  result.a = side_of(a, of_a);
  result.b = side_of(b, of_b);
  result.items = items_of(of_a.causes, of_b.causes);
  result.traffic = traffic_between(of_a.prepared.schedule.program, of_b.prepared.schedule.program);
  result.peak_a = static_cast<double>(of_a.prepared.plan.device_bytes);
  result.peak_b = static_cast<double>(of_b.prepared.plan.device_bytes);
  result.memory = memory_between(of_a.prepared, of_b.prepared);
  return result;
}

}  // namespace spillway
