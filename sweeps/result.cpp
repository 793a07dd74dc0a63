// The JSON object of one result.
#include <algorithm>
#include <cmath>
#include <functional>

#include "harness/measurement.h"
#include "sweeps/projection.h"
#include "sweeps/run.h"

namespace spillway {

namespace {

using nlohmann::json;

// JSON has no NaN or infinity: what is not a number is null.
json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

double median_over(const std::vector<Trace>& traces,
                   const std::function<double(const Trace&)>& figure) {
  std::vector<double> values;
  values.reserve(traces.size());
  for (const Trace& trace : traces)
    values.push_back(figure(trace));
  return statistics_of(values).median;
}

json transfers_json(const Schedule& schedule, const Trace& trace) {
  json rows = json::array();
  for (const Transfer& transfer : transfers_of(schedule, trace))
    rows.push_back({{"name", transfer.name},
                    {"direction", name_of(transfer.direction)},
                    {"bytes", transfer.bytes},
                    {"seconds", transfer.seconds},
                    {"exposed_seconds", transfer.exposed_seconds}});
  return rows;
}

json clocks_json(const DeviceClocks& clocks) {
  return {{"compute_hertz", number(clocks.compute_hertz)},
          {"memory_hertz", number(clocks.memory_hertz)},
          {"watts", number(clocks.watts)},
          {"celsius", number(clocks.celsius)},
          {"throttled", clocks.throttled}};
}

// The raw figures of one timed step. Without spans (--timestamps off) nothing is known of its parts.
json step_json(const Schedule& schedule, const Trace& trace) {
  const bool timed = !trace.spans.empty();
  const LaneTimes times = compute_lane_times(trace);
  const auto known = [timed](const json& value) { return timed ? value : json(nullptr); };
  json step = {{"seconds", trace.seconds},
               {"busy_seconds", known(times.busy)},
               {"waiting_seconds", known(times.waiting)},
               {"idle_seconds", known(times.idle)},
               {"transfers", known(transfers_json(schedule, trace))}};
  if (trace.clocks) step["clocks"] = clocks_json(*trace.clocks);
  return step;
}

std::vector<double> over_steps(const json& steps,
                               const std::function<double(const json&)>& figure) {
  std::vector<double> values;
  for (const json& step : steps)
    values.push_back(figure(step));
  return values;
}

double median_of(const json& steps, const char* key) {
  return statistics_of(over_steps(steps, [&](const json& step) { return step[key].get<double>(); }))
      .median;
}

// Row by row: every step has the same transfers in the same order.
json median_transfers(const json& steps) {
  json rows = steps.front()["transfers"];
  for (size_t row = 0; row < rows.size(); ++row)
    for (const char* key : {"seconds", "exposed_seconds"})
      rows[row][key] = statistics_of(over_steps(steps, [&](const json& step) {
                         return step["transfers"][row][key].get<double>();
                       })).median;
  return rows;
}

double exposed_in(const json& step) {
  double sum = 0;
  for (const json& transfer : step["transfers"])
    sum += transfer["exposed_seconds"].get<double>();
  return sum;
}

json by_role(const std::array<int64_t, role_count>& bytes) {
  json object;
  for (int role = 0; role < role_count; ++role)
    object[name_of(static_cast<Role>(role))] = bytes[static_cast<size_t>(role)];
  return object;
}

json policy_summary(const PolicySummary& summary) {
  json rows = json::array();
  for (const PolicySummary::Row& row : summary.rows) {
    rows.push_back({{"name", row.name},
                    {"fate", name_of(row.fate)},
                    {"tensors", row.tensors},
                    {"bytes", row.bytes}});
    if (row.resident_bytes > 0) rows.back()["resident_bytes"] = row.resident_bytes;
  }
  return {{"text", summary.text()},
          {"rows", rows},
          {"skipped", summary.skipped},
          {"kept_bytes", summary.kept_bytes},
          {"offloaded_bytes", summary.offloaded_bytes},
          {"recomputed_ops", summary.recomputed_ops},
          {"recomputed_flops", summary.recomputed_flops}};
}

// Live bytes at every compute-lane position. Seconds spread a segment's positions evenly over the
// time its iterations took, since the live bytes are the same in each of them.
json memory_curve(const Prepared& prepared, const Trace* trace) {
  json curve = json::array();
  double begin = 0;
  for (size_t i = 0; i < prepared.plan.curve.size(); ++i) {
    const LivePoint& point = prepared.plan.curve[i];
    const auto segment = static_cast<size_t>(point.segment);
    const double steps = static_cast<double>(prepared.schedule.segments[segment].lanes[0].size());
    const double duration = trace ? segment_seconds(*trace, point.segment) : 0;
    json seconds = nullptr;
    if (trace) seconds = begin + duration * point.step / std::max(1.0, steps);
    curve.push_back({{"segment", prepared.schedule.program.segments[segment].name},
                     {"step", point.step},
                     {"seconds", seconds},
                     {"bytes", by_role(point.bytes)}});
    const bool last =
        i + 1 == prepared.plan.curve.size() || prepared.plan.curve[i + 1].segment != point.segment;
    if (last) begin += duration;
  }
  return curve;
}

// The spans of all lanes while the compute lane was in one iteration of one segment.
json one_layer(const Schedule& schedule, const Trace& trace, int segment, int64_t iteration) {
  const auto [begin, end] = interval_of(trace, segment, iteration);
  json spans = json::array();
  for (const Span& span : spans_between(trace, begin, end)) {
    const Op& op = schedule.program.segments[static_cast<size_t>(span.segment)]
                       .ops[static_cast<size_t>(span.op)];
    json shown = {{"lane", name_of(span.lane)},
                  {"kind", span.kind == SpanKind::op ? "op" : "wait"},
                  {"name", op.name},
                  {"op", info(op.kind).name},
                  {"begin", std::max(span.begin, begin) - begin},
                  {"end", std::min(span.end, end) - begin}};
    if (span.kind == SpanKind::wait) shown["on"] = name_of(span.on);
    spans.push_back(std::move(shown));
  }
  return {{"segment", schedule.program.segments[static_cast<size_t>(segment)].name},
          {"spans", spans}};
}

// A middle layer of the longest loop of each pass.
json timeline(const Schedule& schedule, const Trace& trace) {
  json layers = json::array();
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const int longest = longest_segment(schedule.program, pass);
    if (longest < 0) continue;
    const int64_t middle = schedule.program.segments[static_cast<size_t>(longest)].trips / 2;
    layers.push_back(one_layer(schedule, trace, longest, middle));
  }
  return layers;
}

json op_seconds_of(const Schedule& schedule, const Trace& trace) {
  json object;
  for (const auto& [kind, seconds] : seconds_by_kind(schedule, trace))
    object[info(kind).name] = seconds;
  return object;
}

// By "segment.op", over all iterations of all steps: a profile.
json op_mean_seconds_of(const Schedule& schedule, const std::vector<Trace>& traces) {
  const std::vector<Segment>& segments = schedule.program.segments;
  const std::vector<std::vector<double>> means = mean_op_seconds(schedule, traces);
  json object = json::object();
  for (size_t s = 0; s < segments.size(); ++s)
    for (size_t op = 0; op < segments[s].ops.size(); ++op)
      object[segments[s].name + "." + segments[s].ops[op].name] = means[s][op];
  return object;
}

// The step whose duration is nearest to the median.
const Trace& typical(const std::vector<Trace>& traces) {
  const double median = median_over(traces, [](const Trace& trace) { return trace.seconds; });
  return *std::min_element(traces.begin(), traces.end(), [&](const Trace& a, const Trace& b) {
    return std::abs(a.seconds - median) < std::abs(b.seconds - median);
  });
}

// What is known before anything runs; of routing, what running has shown besides.
json planned(const Prepared& prepared, const Outcome& outcome, const Settings& settings) {
  const Point& point = prepared.point;
  const bool simulated = point.executor == ExecutorKind::sim;
  json peak = by_role(prepared.plan.peak_by_role);
  peak["holes"] = prepared.plan.holes;
  json fitted = nullptr;
  if (simulated && settings.fitted)
    fitted = {{"figure", settings.fitted->figure},
              {"value", settings.fitted->value},
              {"on", settings.fitted->on}};
  return {
      {"status", name_of(prepared.status)},
      {"reason", prepared.reason.empty() ? json(nullptr) : json(prepared.reason)},
      {"kind", simulated ? "simulated" : "measured"},
      {"checked", false},
      {"fitted", fitted},
      {"executed_matmul_flops", prepared.executed.matmul},
      {"attention_backward_extra_flops", prepared.executed.attention_backward_extra},
      {"counted_flops", prepared.account.flops_step_causal},
      {"counted_flops_full_attention", prepared.account.flops_step_full},
      {"tokens_per_step_per_device", *point.micro_batch * *point.seq},
      {"global_batch", *point.micro_batch * point.devices},
      {"peak_hbm_bytes", prepared.plan.device_bytes},
      {"peak_hbm_bytes_used", used_peak_bytes(prepared.plan, prepared.routed)},
      {"peak_hbm_by_role", peak},
      {"routing", routing_json(prepared.routed, outcome.routing)},
      {"host_bytes", prepared.plan.host_bytes},
      {"offloaded_bytes_per_step", planned_bytes(prepared.schedule, Lane::d2h)},
      {"link_bytes_per_second",
       prepared.link_bytes_per_second > 0 ? json(prepared.link_bytes_per_second) : json(nullptr)},
      {"config", to_json(point)},
      {"environment", environment()},
      {"warnings", prepared.config.warnings},
      {"policy_summary", policy_summary(prepared.summary)},
      {"rule_counts", prepared.rule_counts}};
}

// Fields of planned() that a point which could not even be planned does not have.
const char* const planned_fields[] = {"fitted",
                                      "executed_matmul_flops",
                                      "attention_backward_extra_flops",
                                      "global_batch",
                                      "peak_hbm_bytes",
                                      "peak_hbm_bytes_used",
                                      "peak_hbm_by_role",
                                      "routing",
                                      "host_bytes",
                                      "offloaded_bytes_per_step",
                                      "link_bytes_per_second",
                                      "counted_flops",
                                      "counted_flops_full_attention",
                                      "tokens_per_step_per_device",
                                      "policy_summary",
                                      "rule_counts",
                                      "memory_curve"};

// Every field that needs a run, as null.
const char* const run_fields[] = {"step_seconds",
                                  "tflops_per_s_per_device",
                                  "tflops_per_s_per_device_full_attention",
                                  "tokens_per_s_per_device",
                                  "host_bytes_reserved",
                                  "exposed_transfer_seconds",
                                  "transfers",
                                  "loss",
                                  "gradient_digest",
                                  "compute_lane",
                                  "op_seconds",
                                  "op_mean_seconds",
                                  "timeline",
                                  "steps"};

void add_times(json& result, const Prepared& prepared, const std::vector<Trace>& traces) {
  const Schedule& schedule = prepared.schedule;
  result["steps"] = json::array();
  for (const Trace& trace : traces)
    result["steps"].push_back(step_json(schedule, trace));
  const Trace& trace = typical(traces);
  if (trace.spans.empty()) return summarize(result);
  result["op_seconds"] = op_seconds_of(schedule, trace);
  result["op_mean_seconds"] = op_mean_seconds_of(schedule, traces);
  result["timeline"] = timeline(schedule, trace);
  if (prepared.point.ranks.differ()) result["rank_waiting_seconds"] = trace.rank_waiting_seconds;
  summarize(result);
}

}  // namespace

void summarize(json& result) {
  const json& steps = result["steps"];
  const Statistics seconds = statistics_of(
      over_steps(steps, [](const json& step) { return step["seconds"].get<double>(); }));
  result["step_seconds"] = {
      {"median", seconds.median}, {"min", seconds.min}, {"max", seconds.max}, {"n", seconds.n}};
  const auto rate = [&](const char* work, double unit) {
    return number(result[work].get<double>() / unit / seconds.median);
  };
  result["tflops_per_s_per_device"] = rate("counted_flops", 1e12);
  result["tflops_per_s_per_device_full_attention"] = rate("counted_flops_full_attention", 1e12);
  result["tokens_per_s_per_device"] = rate("tokens_per_step_per_device", 1);
  if (steps.front()["transfers"].is_null()) return;
  result["exposed_transfer_seconds"] = statistics_of(over_steps(steps, exposed_in)).median;
  result["transfers"] = median_transfers(steps);
  result["compute_lane"] = {{"busy_seconds", median_of(steps, "busy_seconds")},
                            {"waiting_seconds", median_of(steps, "waiting_seconds")},
                            {"idle_seconds", median_of(steps, "idle_seconds")}};
}

json failed_result(const Point& point, const std::string& reason) {
  json result = {{"status", "failed"},
                 {"reason", reason},
                 {"kind", point.executor == ExecutorKind::sim ? "simulated" : "measured"},
                 {"checked", false},
                 {"config", to_json(point)},
                 {"environment", environment()}};
  for (const char* field : planned_fields)
    result[field] = nullptr;
  for (const char* field : run_fields)
    result[field] = nullptr;
  return result;
}

json result_of(const Prepared& prepared, const Outcome& outcome, const Settings& settings) {
  json result = planned(prepared, outcome, settings);
  for (const char* field : run_fields)
    result[field] = nullptr;
  const bool ran = !outcome.traces.empty();
  const Trace* shown = ran ? &typical(outcome.traces) : nullptr;
  if (ran && shown->spans.empty()) shown = nullptr;
  result["memory_curve"] = memory_curve(prepared, shown);
  if (!ran) return result;
  add_times(result, prepared, outcome.traces);
  // Only where there is one: a run of all layers names none.
  if (runs_part_of_model(prepared.point))
    result["projected"] = projection_of(prepared, outcome.traces, settings);
  result["host_bytes_reserved"] = outcome.host_bytes_reserved;
  if (outcome.gpu) result["gpu"] = gpu_json(*outcome.gpu);
  if (outcome.losses.empty()) return result;
  result["loss"] = json::array();
  for (const double loss : outcome.losses)
    result["loss"].push_back(number(loss));
  result["gradient_digest"] = outcome.gradient_digest;
  return result;
}

}  // namespace spillway
