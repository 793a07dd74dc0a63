// The data flow of one point.
#include "sweeps/run.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/embedded.h"
#include "harness/error.h"
#include "harness/measurement.h"
#include "harness/race.h"
#include "harness/workspaces.h"
#include "offload/combine.h"
#include "offload/pipeline.h"
#include "offload/scheduler.h"
#include "sweeps/changed_machine.h"
#include "sweeps/machines.h"
#include "sweeps/profile.h"
#include "sweeps/projection.h"
#include "workloads/quantise.h"
#include "workloads/shard.h"
#include "workloads/workload.h"

namespace spillway {

const char* name_of(PointStage stage) {
  static constexpr std::array<const char*, point_stage_count> names = {
      "config and account", "build",   "shard", "policy", "pipeline", "order", "lay out", "plan",
      "waits and race",     "simulate"};
  return names[static_cast<size_t>(stage)];
}

const char* name_of(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::oom:
      return "oom";
    case Status::host_oom:
      return "host_oom";
    case Status::failed:
      return "failed";
  }
  return "?";
}

namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

// Fills in what the point leaves to the model: a proxy's own batch and sequence, else 1 and 4096.
Point with_defaults(Point point, const ModelConfig& config) {
  if (!point.micro_batch) point.micro_batch = config.micro_batch.value_or(1);
  if (!point.seq) point.seq = config.seq.value_or(4096);
  point.layers = config.layers;
  return point;
}

ModelConfig config_of(const Point& point) {
  ModelConfig config = load_model(point.model);
  if (point.layers) set_layers(config, *point.layers);
  return config;
}

WorkloadOptions workload_options(const Point& point) {
  WorkloadOptions options;
  options.micro_batch = *point.micro_batch;
  options.seq = *point.seq;
  options.precision = point.precision;
  options.projection_precision = point.projection_precision;
  options.fp32_logits = point.fp32_logits;
  options.state_bytes = point.state_bytes;
  options.moe = point.moe;
  return options;
}

// One rank receives what it sends where routing is exactly even, as the simulator takes it to be.
ExpertParallel expert_parallel(const Point& point) {
  const double planned = point.executor == ExecutorKind::sim ? 1 : 2;
  const double given = point.moe.ragged_buffer_factor;
  return {.ranks = point.moe.expert_parallel, .ragged_buffer_factor = given > 0 ? given : planned};
}

PipelineOptions pipeline_options(const Point& point) {
  return {.host_copies = point.pipeline,
          .collectives = point.pipeline_collectives,
          .rotation_copies = point.rotation_copies,
          .depth = point.pipeline_depth,
          .unroll = point.unroll};
}

Capacity capacity_of(const Point& point, const Machine& machine, const Settings& settings) {
  Capacity capacity;
  if (point.executor == ExecutorKind::sim) {
    capacity.device =
        static_cast<int64_t>(machine.figure("hbm_bytes") * machine.figure("hbm_usable"));
    capacity.host = static_cast<int64_t>(machine.figure("host_bytes"));
  } else if (point.executor == ExecutorKind::cuda) {
    capacity.device = available_bytes(*settings.cuda);
    capacity.host = available_memory_bytes() + host_reserved(*settings.cuda);
  } else {
    // What the shared arenas hold already is ours to use again.
    const int64_t reserved =
        settings.memory ? settings.memory->device_reserved() + settings.memory->host_reserved() : 0;
    capacity.device = capacity.host = available_memory_bytes() + reserved;
  }
  if (point.hbm_bytes) capacity.device = *point.hbm_bytes;
  if (point.host_bytes) capacity.host = *point.host_bytes;
  return capacity;
}

// The memory limit that steers LHS: from the machine, never from --hbm, so that the peak of a point
// does not depend on the capacity it is held against. A CPU's memory is no HBM: no limit. The slop is
// XLA's xla_gpu_memory_limit_slop_factor (mechanisms.md 3.4).
int64_t lhs_memory_limit(const Point& point, const Machine& machine, const Program& program) {
  if (point.executor == ExecutorKind::cpu) return 0;
  double limit = machine.figure("hbm_bytes") * machine.figure("hbm_usable");
  for (const Tensor& tensor : program.tensors)
    if (tensor.extent == Extent::persistent && tensor.space == Space::device)
      limit -= static_cast<double>(tensor.bytes());
  return std::max<int64_t>(1, static_cast<int64_t>(limit * point.memory_slop / 100));
}

// What LHS takes ops to last. Adds what a profile lacks to the warnings.
OpSeconds latencies(const Point& point, Prepared& prepared, const Program& program) {
  OpSeconds size = [&prepared](const Program& of, const Op& op) {
    return op_seconds(of, op, prepared.machine, prepared.sim);
  };
  if (point.latency_model == LatencyModel::xla) return xla_seconds(std::move(size));
  if (point.latency_model == LatencyModel::size) return size;
  std::map<std::string, double> profile = load_profile(point.profile);
  // A profile names the bodies that are scheduled.
  match_profile(profile, merge_straight_line(program), point.profile, prepared.config.warnings);
  return measured_seconds(std::move(profile), std::move(size));
}

SchedulerOptions scheduler_options(const Point& point, Prepared& prepared, const Program& program) {
  SchedulerOptions options;
  options.lhs = point.lhs;
  options.collectives_without_lhs = point.lhs_off_collectives == "adjacent"
                                        ? CollectivesWithoutLhs::adjacent
                                        : CollectivesWithoutLhs::post;
  options.rules = point.lhs_rules;
  options.limits = point.lhs_limits;
  options.memory_limit = lhs_memory_limit(point, prepared.machine, program);
  options.seconds = latencies(point, prepared, program);
  return options;
}

std::string out_of_memory(const Prepared& prepared, Space space, int64_t wanted,
                          int64_t available) {
  const bool on_host = space == Space::host;
  std::string reason = text(on_host ? "host" : "device", " memory: ", wanted, " bytes wanted (",
                            static_cast<double>(wanted) / gib, " GiB), ", available, " available (",
                            static_cast<double>(available) / gib, " GiB)");
  // Host tensors keep their place for the whole step; those of the device come and go.
  const std::vector<TensorId> largest = on_host ? largest_on_host(prepared) : prepared.plan.largest;
  if (!largest.empty()) reason += on_host ? "; largest there:" : "; largest alive at the peak:";
  for (const TensorId id : largest) {
    const Tensor& tensor = prepared.schedule.program.at(id);
    reason += text(" ", tensor.name, " ", tensor.bytes(), ",");
  }
  if (reason.back() == ',') reason.pop_back();
  return reason;
}

std::string machine_for(const Point& point, const Settings& settings) {
  if (point.executor == ExecutorKind::sim) return default_machine;
  if (point.executor == ExecutorKind::cpu) return scheduling_machine;
  return machine_of_gpu(device_of(*settings.cuda).name);
}

void judge_capacity(Prepared& prepared) {
  const Capacity& capacity = prepared.capacity;
  const Plan& plan = prepared.plan;
  // Without --host a CPU's host arena takes what its device arena leaves of the same memory.
  const bool shared = prepared.point.executor == ExecutorKind::cpu && !prepared.point.host_bytes;
  const int64_t host = shared ? capacity.host - plan.device_bytes : capacity.host;
  if (plan.device_bytes > capacity.device) {
    prepared.status = Status::oom;
    prepared.reason = out_of_memory(prepared, Space::device, plan.device_bytes, capacity.device);
  } else if (plan.host_bytes > host) {
    prepared.status = Status::host_oom;
    prepared.reason = out_of_memory(prepared, Space::host, plan.host_bytes, host);
  }
}

void refuse_what_cannot_run(const Point& point) {
  if (point.executor == ExecutorKind::sim) return;
  if (point.devices != 1 && !runs_part_of_model(point))
    throw InputError(text("--devices: found ", point.devices,
                          ", but an executor of real steps runs one device in one process; "
                          "expected 1, or --layers with fewer than the model has, whose whole step "
                          "is projected, or --executor sim"));
  if (point.moe.expert_parallel != 1)
    throw InputError(text("--expert-parallel: found ", point.moe.expert_parallel,
                          ", but an executor of real steps holds all experts; expected 1, or "
                          "--executor sim"));
}

}  // namespace

std::vector<TensorId> largest_on_host(const Prepared& planned) {
  const Program& program = planned.schedule.program;
  std::vector<TensorId> found;
  for (size_t id = 0; id < program.tensors.size(); ++id)
    if (program.tensors[id].space == Space::host && planned.plan.offset[id] >= 0)
      found.push_back(static_cast<TensorId>(id));
  std::stable_sort(found.begin(), found.end(), [&](TensorId a, TensorId b) {
    return program.at(a).bytes() > program.at(b).bytes();
  });
  found.resize(std::min<size_t>(found.size(), 5));
  return found;
}

Prepared plan_point(const Point& point, const Settings& settings) {
  if (point.executor == ExecutorKind::cuda && !settings.cuda) {
    Settings opened = settings;
    opened.cuda = require_cuda();
    return plan_point(point, opened);
  }
  StageClock clock(settings.stages);
  refuse_what_cannot_run(point);
  Prepared result;
  result.config = config_of(point);
  result.point = with_defaults(point, result.config);
  result.machine =
      load_machine(!point.machine.empty() ? point.machine : machine_for(point, settings));
  if (!settings.machine_figures.empty())
    result.machine = change_figures(std::move(result.machine), settings.machine_figures);
  result.link_bytes_per_second = settings.link_bytes_per_second.value_or(0);
  result.sim = {.matmul_efficiency = settings.fitted ? settings.fitted->value : 0,
                .free_transfers = settings.free_transfers,
                .link_bytes_per_second = result.link_bytes_per_second,
                .every_iteration = point.every_iteration,
                .ranks = point.ranks};
  result.sim.ranks.seed = point.seed;
  result.account = account(result.config, *result.point.micro_batch, *result.point.seq);
  result.capacity = capacity_of(point, result.machine, settings);
  clock.lap(PointStage::config);

  using At = PointStage;
  Program program =
      clock.lap(At::build, build_program(result.config, workload_options(result.point)));
  program = clock.lap(At::shard,
                      shard(std::move(program), devices_in_run(point), expert_parallel(point)));
  PolicyResult chosen =
      clock.lap(At::policy,
                apply_policy(std::move(program), parse_policy(point.policy), point.resident_tail));
  result.summary = std::move(chosen.summary);
  chosen.program = clock.lap(At::policy, quantise_operands(std::move(chosen.program)));
  program = clock.lap(At::pipeline, pipeline(std::move(chosen.program), pipeline_options(point)));
  program = clock.lap(At::pipeline, combine_collectives(std::move(program), point.combine_bytes));
  result.executed = executed_flops(program);
  const SchedulerOptions options = scheduler_options(point, result, program);
  OrderedProgram ordered = clock.lap(At::order, order_bodies(std::move(program), options));
  result.rule_counts = std::move(ordered.rule_counts);
  result.schedule =
      clock.lap(At::lay_out, lay_out(std::move(ordered.program), ordered.orders, point.streams));
  if (point.executor == ExecutorKind::cuda) {
    if (point.plain_attention) choose_plain_attention(result.schedule.program);
    refuse_for_cuda(result.schedule.program, device_of(*settings.cuda));
    result.schedule =
        with_workspaces(std::move(result.schedule), cuda_workspaces(*settings.cuda, point.matmul));
  }
  result.plan = clock.lap(At::plan, plan_memory(result.schedule));
  judge_capacity(result);
  return result;
}

Prepared prepare(const Point& point, const Settings& settings) {
  Prepared result = plan_point(point, settings);
  StageClock clock(settings.stages);
  // XLA's streams wait whether or not the values need it.
  Proven proven = point.streams == Streams::xla
                      ? prove(std::move(result.schedule), result.plan)
                      : drop_and_prove(std::move(result.schedule), result.plan);
  if (proven.race)
    throw std::logic_error("the schedule is not free of races: " + proven.race->message);
  result.schedule = std::move(proven.schedule);
  clock.lap(PointStage::prove);
  result.routed = routed_by(result.schedule.program, point.moe.expert_parallel);
  const std::string excess = more_rows_than_planned(result.routed);
  if (result.status == Status::ok && !excess.empty()) {
    result.status = Status::failed;
    result.reason = excess;
  }
  return result;
}

Outcome run_steps(const Prepared& prepared, ValueExecutor& executor, StepCount steps) {
  Outcome outcome;
  for (int64_t step = 0; step < steps.all; ++step) {
    Trace trace = executor.step();
    for (const Lane lane : {Lane::d2h, Lane::h2d})
      if (trace.bytes_moved[static_cast<int>(lane)] != planned_bytes(prepared.schedule, lane))
        throw RunError(text("step ", step, ", lane ", name_of(lane), ": moved ",
                            trace.bytes_moved[static_cast<int>(lane)], " bytes, planned ",
                            planned_bytes(prepared.schedule, lane)));
    if (!std::isfinite(trace.loss))
      throw RunError(
          text("step ", step, ": the loss is ", trace.loss, ", expected a finite number"));
    outcome.losses.push_back(trace.loss);
    if (step >= steps.warmup) outcome.traces.push_back(std::move(trace));
  }
  outcome.gradient_digest = executor.gradient_digest();
  outcome.routing = routing_record(prepared.schedule.program, executor);
  outcome.host_bytes_reserved = executor.host_bytes_reserved();
  outcome.stale_slots = executor.stale_slots();
  if (outcome.stale_slots > 0)
    throw RunError(
        text(outcome.stale_slots,
             " times a host slot was reloaded, or taken for written, before its write was over"));
  return outcome;
}

Outcome run_cpu(const Prepared& prepared, std::shared_ptr<CpuMemory> memory, int64_t steps,
                int64_t warmup) {
  const CpuOptions options{.link_bytes_per_second = prepared.link_bytes_per_second,
                           .slow_copy = prepared.point.slow_copy,
                           .seed = prepared.point.seed,
                           .poison = prepared.point.poison};
  CpuExecutor executor(prepared.schedule, prepared.plan, options, std::move(memory));
  return run_steps(prepared, executor, {steps, warmup});
}

Outcome run_real(const Prepared& prepared, const Settings& settings, StepCount steps) {
  return prepared.point.executor == ExecutorKind::cuda
             ? run_cuda(prepared, settings.cuda, steps)
             : run_cpu(prepared, settings.memory, steps.all, steps.warmup);
}

Outcome run_sim(const Prepared& prepared, StageSeconds* stages) {
  StageClock clock(stages);
  Outcome outcome;
  outcome.traces.push_back(
      make_sim_executor(prepared.schedule, prepared.machine, prepared.sim)->step());
  outcome.host_bytes_reserved = prepared.plan.host_arena_bytes;
  clock.lap(PointStage::simulate);
  return outcome;
}

nlohmann::json run_point(const Point& point, const Settings& settings) {
  const Prepared prepared = prepare(point, settings);
  Outcome outcome;
  if (prepared.status == Status::ok)
    outcome = point.executor == ExecutorKind::sim
                  ? run_sim(prepared)
                  : run_real(prepared, settings, {point.steps, point.warmup});
  return result_of(prepared, outcome, settings);
}

}  // namespace spillway
