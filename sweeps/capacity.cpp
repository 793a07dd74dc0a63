// The search for the largest micro batch, and the rates its copies need.
#include "sweeps/capacity.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "harness/measurement.h"

namespace spillway {

namespace {

Trial::Entry entry_of(const Tensor& tensor) { return {tensor.name, tensor.role, tensor.bytes()}; }

Trial trial_of(const Prepared& planned) {
  const Plan& plan = planned.plan;
  Trial trial;
  trial.micro_batch = *planned.point.micro_batch;
  trial.device_bytes = plan.device_bytes;
  trial.host_bytes = plan.host_bytes;
  trial.peak_by_role = plan.peak_by_role;
  trial.holes = plan.holes;
  for (const TensorId id : plan.largest)
    trial.largest_device.push_back(entry_of(planned.schedule.program.at(id)));
  for (const TensorId id : largest_on_host(planned))
    trial.largest_host.push_back(entry_of(planned.schedule.program.at(id)));
  trial.fits = planned.status == Status::ok;
  return trial;
}

Point at_micro_batch(Point point, int64_t micro_batch) {
  point.executor = ExecutorKind::sim;
  point.micro_batch = micro_batch;
  return point;
}

// A loop is a segment of several trips; a program without one is judged by its step.
CopyNeed copy_need(const Schedule& schedule, const Trace& free, Lane lane) {
  CopyNeed need;
  need.bytes = planned_bytes(schedule, lane);
  need.step_bytes_per_second = static_cast<double>(need.bytes) / free.seconds;
  need.busiest_bytes_per_second = need.step_bytes_per_second;
  for (size_t i = 0; i < schedule.program.segments.size(); ++i) {
    if (schedule.program.segments[i].trips == 1) continue;
    const double bytes = static_cast<double>(planned_bytes(schedule, lane, static_cast<int>(i)));
    const double seconds = segment_seconds(free, static_cast<int>(i));
    if (seconds > 0)
      need.busiest_bytes_per_second = std::max(need.busiest_bytes_per_second, bytes / seconds);
  }
  return need;
}

// What a policy decides for the names a program has; those it recomputes are the rest.
std::map<std::string, Fate> decisions(const PolicySummary& summary) {
  std::map<std::string, Fate> fates;
  for (const PolicySummary::Row& row : summary.rows)
    if (row.fate != Fate::remat) fates[row.name] = row.fate;
  return fates;
}

}  // namespace

bool shapes_plan(const Field& field) {
  constexpr std::array of_a_run = std::to_array<std::string_view>(
      {"executor", "micro-batch", "policy", "steps", "warmup", "link", "slow-copy", "poison",
       "seed", "routing", "every-iteration", "ranks", "rank-jitter", "op-jitter", "straggler"});
  return std::find(of_a_run.begin(), of_a_run.end(), field.name) == of_a_run.end();
}

int64_t largest_that_fits(const std::function<bool(int64_t)>& fits, int64_t most) {
  int64_t good = 0;
  for (int64_t n = 1, misses = 0; n <= most && misses < 2; n *= 2) {
    if (fits(n)) good = n;
    misses = good == n ? 0 : misses + 1;
  }
  for (int64_t bad = std::min(2 * good, most + 1); bad - good > 1;) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  for (int64_t n = good + 1, misses = 0; n <= most && misses < 2; ++n) {
    if (fits(n)) good = n;
    misses = good == n ? 0 : misses + 1;
  }
  return good;
}

const Trial* CapacityAnswer::at(int64_t micro_batch) const {
  const auto found = std::find_if(trials.begin(), trials.end(), [&](const Trial& trial) {
    return trial.micro_batch == micro_batch;
  });
  return found == trials.end() ? nullptr : &*found;
}

CapacityAnswer find_capacity(Point point) {
  CapacityAnswer answer;
  std::map<int64_t, Trial> planned;
  const auto fits = [&](int64_t micro_batch) {
    const auto known = planned.find(micro_batch);
    if (known != planned.end()) return known->second.fits;
    Prepared prepared = plan_point(at_micro_batch(point, micro_batch), {});
    answer.capacity = prepared.capacity;
    if (micro_batch == 1) answer.summary = std::move(prepared.summary);
    return planned.emplace(micro_batch, trial_of(prepared)).first->second.fits;
  };
  answer.largest = largest_that_fits(fits, most_micro_batch);
  for (auto& [micro_batch, trial] : planned)
    answer.trials.push_back(std::move(trial));
  return answer;
}

HostNeed host_need(Point point, int64_t micro_batch) {
  Prepared prepared = prepare(at_micro_batch(std::move(point), micro_batch), {});
  HostNeed need;
  const Trace paid = run_sim(prepared).traces.front();
  need.step_seconds = paid.seconds;
  need.tokens_per_second = static_cast<double>(micro_batch * *prepared.point.seq) / paid.seconds;
  for (const Transfer& transfer : transfers_of(prepared.schedule, paid))
    need.exposed_seconds += transfer.exposed_seconds;
  prepared.sim.free_transfers = true;
  const Trace free = run_sim(prepared).traces.front();
  need.step_seconds_if_hidden = free.seconds;
  need.d2h = copy_need(prepared.schedule, free, Lane::d2h);
  need.h2d = copy_need(prepared.schedule, free, Lane::h2d);
  return need;
}

std::vector<AskedPolicy> distinct_presets(Point point) {
  std::vector<AskedPolicy> distinct;
  std::vector<std::map<std::string, Fate>> seen;
  for (const PolicyPreset& preset : policy_presets()) {
    point.policy = preset.name;
    const auto fates = decisions(plan_point(at_micro_batch(point, 1), {}).summary);
    const auto same = std::find(seen.begin(), seen.end(), fates);
    if (same != seen.end()) {
      distinct[static_cast<size_t>(same - seen.begin())].same.emplace_back(preset.name);
      continue;
    }
    seen.push_back(fates);
    distinct.push_back({preset.name, {}});
  }
  return distinct;
}

}  // namespace spillway
