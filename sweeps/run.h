// The data flow of one point: config -> Program -> Schedule -> plan -> race check -> traces ->
// result.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/executor.h"
#include "harness/machine.h"
#include "offload/policy.h"
#include "sweeps/point.h"
#include "sweeps/routing.h"
#include "sweeps/run_cuda.h"
#include "sweeps/stages.h"
#include "workloads/accounting.h"
#include "workloads/config.h"

namespace spillway {

// The single figure a sweep solved for, and the row it was solved on.
struct Fitted {
  std::string figure;
  double value = 0;
  std::string on;
};

// What a sweep resolves once and every one of its points uses.
struct Settings {
  std::optional<double> link_bytes_per_second;  // paced link of CPU runs; empty: as fast as it goes
  std::optional<Fitted> fitted;
  bool free_transfers = false;                 // simulator: host copies take no time
  std::shared_ptr<CpuMemory> memory;           // shared arenas of CPU runs; null: made when needed
  std::shared_ptr<CudaMemory> cuda = nullptr;  // a GPU and its arenas, likewise
  std::map<std::string, double> machine_figures = {};  // other than the machine's own
  StageSeconds* stages = nullptr;  // where time by stage is added up; null: not measured
};

enum class Status : uint8_t { ok, oom, host_oom, failed };
const char* name_of(Status status);

// What a plan is held against, bytes of one device.
struct Capacity {
  int64_t device = 0, host = 0;
};

// A point ready to run: everything that is known before anything runs.
struct Prepared {
  Point point;
  ModelConfig config;
  Machine machine;  // what the scheduler takes its latencies from; of a simulation, also its clock
  ModelAccount account;
  ExecutedFlops executed;
  PolicySummary summary;
  Schedule schedule;
  Plan plan;
  Capacity capacity;
  std::map<std::string, int64_t> rule_counts;
  SimOptions sim;
  std::optional<Routed> routed;      // of a model with experts, set by prepare()
  double link_bytes_per_second = 0;  // 0: unpaced, or the machine's own
  Status status = Status::ok;
  // Of an oom: bytes wanted, available, the five largest tensors. Of a failure: both numbers.
  std::string reason;
};

// Builds, shards, applies the policy, pipelines, schedules and plans: all that decides whether the
// point fits, without the proof that running it needs. Throws InputError for a user's mistake.
Prepared plan_point(const Point& point, const Settings& settings);
// The same, and proves; `failed` where a rank would receive more rows of experts than are planned.
// Throws std::logic_error if the schedule is not free of races.
Prepared prepare(const Point& point, const Settings& settings);

// The five largest tensors of the host's plan, largest first.
std::vector<TensorId> largest_on_host(const Prepared& planned);

// What running gave. Empty traces: nothing ran.
struct Outcome {
  std::vector<Trace> traces;    // timed steps
  std::vector<double> losses;   // every step from step 0, warm-up included
  std::string gradient_digest;  // after the last step; empty for a simulation
  RoutingRecord routing;        // of the last step; empty for a simulation
  int64_t host_bytes_reserved = 0;
  int64_t stale_slots = 0;
  std::optional<GpuRun> gpu = {};
};

struct StepCount {
  int64_t all = 0, warmup = 0;  // steps [0, all); those from `warmup` on are timed
};
// Executes steps and looks at what they computed and moved. Throws RunError where that is wrong.
Outcome run_steps(const Prepared& prepared, ValueExecutor& executor, StepCount steps);
Outcome run_cpu(const Prepared& prepared, std::shared_ptr<CpuMemory> memory, int64_t steps,
                int64_t warmup);
Outcome run_cuda(const Prepared& prepared, std::shared_ptr<CudaMemory> memory, StepCount steps);
// On the executor of the point, in the shared memory of the settings.
Outcome run_real(const Prepared& prepared, const Settings& settings, StepCount steps);
Outcome run_sim(const Prepared& prepared, StageSeconds* stages = nullptr);

// Runs a point by itself: prepare, execute, result.
nlohmann::json run_point(const Point& point, const Settings& settings);

// The JSON object of `run --json`; fields in README, "Fields of a result". What a run cannot have
// is null.
nlohmann::json result_of(const Prepared& prepared, const Outcome& outcome,
                         const Settings& settings);

// Recomputes every figure that is a median over steps from result["steps"] (raw figures of each
// timed step), which visits of a sweep may have extended. Needs at least one step.
void summarize(nlohmann::json& result);

// The result of a point that threw: status failed, a reason, everything else null.
nlohmann::json failed_result(const Point& point, const std::string& reason);

// CPU model, threads, matmul path, compiler, program version, operating system.
nlohmann::json environment();

}  // namespace spillway
