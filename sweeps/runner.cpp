// Runs a sweep into a store.
#include "sweeps/runner.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "harness/error.h"
#include "harness/thread_pool.h"
#include "reports/published.h"
#include "sweeps/agreement.h"
#include "sweeps/current.h"
#include "sweeps/fit.h"
#include "sweeps/in_order.h"
#include "sweeps/link.h"
#include "sweeps/run.h"

namespace spillway {

namespace {

using nlohmann::json;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A planned executed point and how many of its visits are done.
struct Executed {
  const SweepPoint* point = nullptr;
  std::unique_ptr<Prepared> prepared;
  int64_t visits = 0;
};

class Runner {
 public:
  Runner(const Sweep& sweep, Store& store, const Progress& progress, int jobs)
      : sweep_(sweep),
        store_(store),
        progress_(progress),
        jobs_(jobs > 0 ? jobs : usable_cpus()),
        memory_(std::make_shared<CpuMemory>()) {}

  int64_t run() {
    total_ = static_cast<int64_t>(sweep_.points.size());
    for (const SweepPoint& point : sweep_.points) {
      const bool done = store_.has_result(key_of(point));
      done_ += static_cast<int64_t>(done);
      // A machine without a GPU refuses the sweep, before a row says so of every point.
      if (!done && point.point.executor == ExecutorKind::cuda) gpu();
    }
    simulate_and_plan();
    run_rounds();
    for (Executed& executed : executed_)
      guarded(*executed.point, [&] { finish_executed(executed); });
    int64_t failed = 0;
    for (const SweepPoint& point : sweep_.points)
      failed += store_.results().at(key_of(point))["status"] == "failed";
    return failed;
  }

 private:
  // Where an executed point's exception is caught: it becomes a row.
  template <class Work>
  void guarded(const SweepPoint& point, const Work& work) {
    if (store_.has_result(key_of(point))) return;
    try {
      work();
    } catch (const std::exception& error) {
      finish(point, failed_result(point.point, error.what()));
    }
  }

  // Simulated points side by side. Nothing runs beside the planning of an executed point, which may
  // measure this machine for it.
  void simulate_and_plan() {
    std::vector<const SweepPoint*> simulated;
    for (const SweepPoint& point : sweep_.points) {
      if (store_.has_result(key_of(point))) continue;
      if (point.point.executor == ExecutorKind::sim) {
        simulated.push_back(&point);
        continue;
      }
      simulate(std::exchange(simulated, {}));
      guarded(point, [&] { plan_or_refuse(point); });
    }
    simulate(simulated);
  }

  // A point's settings, or why there are none. Resolved in order, on one thread.
  struct Resolved {
    Settings settings;
    std::string error;
  };
  Resolved resolved_for(const SweepPoint& point) {
    try {
      return {settings_for(point), ""};
    } catch (const std::exception& error) {
      return {{}, error.what()};
    }
  }

  void simulate(const std::vector<const SweepPoint*>& points) {
    if (points.empty()) return;
    report(points.front()->label);
    std::vector<Resolved> resolved;
    for (const SweepPoint* point : points)
      resolved.push_back(resolved_for(*point));
    const auto work = [&](size_t i) { return simulated_result(*points[i], resolved[i]); };
    InOrder<json>::run(points.size(), jobs_, work, [&](size_t i, json result) {
      finish(*points[i], std::move(result));
      if (i + 1 < points.size()) report(points[i + 1]->label);
    });
  }

  static json simulated_result(const SweepPoint& point, const Resolved& resolved) {
    if (!resolved.error.empty()) return failed_result(point.point, resolved.error);
    try {
      return run_point(point.point, resolved.settings);
    } catch (const std::exception& error) {
      return failed_result(point.point, error.what());
    }
  }

  void plan_or_refuse(const SweepPoint& point) {
    report(point.label);
    const Settings settings = settings_for(point);
    auto prepared = std::make_unique<Prepared>(prepare(point.point, settings));
    if (prepared->status != Status::ok) {
      finish(point, result_of(*prepared, {}, settings));
    } else {
      const auto visits = static_cast<int64_t>(store_.visits(key_of(point)).size());
      executed_.push_back({&point, std::move(prepared), visits});
    }
  }

  Settings settings_for(const SweepPoint& point) {
    Settings settings;
    settings.memory = memory_;
    if (point.point.executor == ExecutorKind::cuda) settings.cuda = gpu();
    if (!point.point.link.empty()) settings.link_bytes_per_second = link_of(point);
    if (point.point.executor == ExecutorKind::sim) settings.fitted = fitted_for(point);
    return settings;
  }

  // Opened for the first point that needs it.
  std::shared_ptr<CudaMemory> gpu() {
    if (!gpu_) gpu_ = require_cuda();
    return gpu_;
  }

  // Link rates and fitted figures are solved once and kept, so that a continued sweep uses the
  // same.
  double link_of(const SweepPoint& point) {
    const Point& p = point.point;
    const std::string name =
        text("link ", p.link, " ", p.model, " ", p.micro_batch.value_or(0), " ", p.seq.value_or(0),
             " ", name_of(p.precision), suffix_of(point));
    if (store_.resolved(name).is_null())
      store_.resolve(name, resolve_link(p, settings_without_link()));
    return store_.resolved(name).get<double>();
  }

  // What was resolved from a file does not hold once the file has changed.
  static std::string suffix_of(const SweepPoint& point) {
    return point.files.empty() ? "" : ", " + point.files;
  }

  Settings settings_without_link() const {
    Settings settings;
    settings.memory = memory_;
    settings.cuda = gpu_;
    return settings;
  }

  std::optional<Fitted> fitted_for(const SweepPoint& point) {
    const SweepHeader& header = sweep_.header_of(point);
    if (!header.calibration) return std::nullopt;
    const SweepPoint& on = *sweep_.calibrated_on(header);
    const std::string name = "fitted " + header.name + suffix_of(on);
    if (store_.resolved(name).is_null()) {
      const Fitted fitted =
          fit_matmul_efficiency(on, find_published(on.published).tflops_per_s_per_device.value());
      store_.resolve(name, {{"figure", fitted.figure}, {"value", fitted.value}, {"on", fitted.on}});
    }
    const json fitted = store_.resolved(name);
    return Fitted{fitted["figure"], fitted["value"], fitted["on"]};
  }

  // What a visit consists of; decided once. Where the time budget has no room for a round of whole
  // visits, the warm-up goes first and then all timed steps but one.
  struct VisitPlan {
    bool warmup = true;
    int64_t steps = 1;  // timed
  };

  VisitPlan visit_plan() {
    if (store_.resolved("visit").is_null()) {
      const VisitPlan plan = affordable_visit();
      store_.resolve("visit", {{"warmup", plan.warmup}, {"steps", plan.steps}});
    }
    const json plan = store_.resolved("visit");
    return {plan["warmup"], plan["steps"]};
  }

  VisitPlan affordable_visit() const {
    const VisitPlan whole{true, sweep_.steps_per_visit};
    if (sweep_.time_budget_seconds == 0 || executed_.empty()) return whole;
    const Point& point = executed_.front().prepared->point;
    const double one_step_of_each =
        estimated_step_seconds(point) * static_cast<double>(executed_.size());
    const auto fits = [&](int64_t steps) {
      return one_step_of_each * static_cast<double>(steps) <= sweep_.time_budget_seconds;
    };
    if (fits(point.warmup + whole.steps)) return whole;
    return {false, fits(whole.steps) ? whole.steps : 1};
  }

  int64_t warmup_of(const Executed& executed) {
    return visit_plan().warmup ? executed.prepared->point.warmup : 0;
  }

  // From a run of a few layers of it: a step is its layers and little else.
  double estimated_step_seconds(Point point) const {
    const double layers = static_cast<double>(*point.layers);
    point.layers = std::min(*point.layers, layers_to_probe(load_model(point.model), 2));
    point.link.clear();
    const double few = static_cast<double>(*point.layers);
    const Settings settings = settings_without_link();
    const Outcome outcome = run_real(prepare(point, settings), settings, {1, 0});
    return outcome.traces.front().seconds * std::max(1.0, layers / few);
  }

  int64_t timed_steps_per_visit(const Executed& executed) {
    const Point& point = executed.prepared->point;
    return std::min(visit_plan().steps, point.steps - point.warmup);
  }

  void run_rounds() {
    int64_t round = 0;
    for (; round < rounds_needed() && within_budget(round); ++round) {
      for (const size_t turn : order_of(round)) {
        Executed& executed = executed_[turn];
        if (executed.visits > round) continue;
        report(text(executed.point->label, ", visit ", round + 1));
        guarded(*executed.point, [&] { visit(executed, round); });
      }
    }
    // Rounds of nothing bind no executed point that the sweep file gets later.
    if (!executed_.empty()) store_.resolve("rounds", round);
  }

  int64_t rounds_needed() {
    if (const json rounds = store_.resolved("rounds"); !rounds.is_null())
      return rounds.get<int64_t>();
    int64_t rounds = 0;
    for (const Executed& executed : executed_) {
      const int64_t timed = executed.prepared->point.steps - executed.prepared->point.warmup;
      const int64_t per_visit = timed_steps_per_visit(executed);
      rounds = std::max(rounds, (timed + per_visit - 1) / per_visit);
    }
    return rounds;
  }

  // Seconds all visits took so far, those of an earlier process included.
  double spent() const {
    double seconds = 0;
    for (const Executed& executed : executed_)
      for (const json& visit : store_.visits(key_of(*executed.point)))
        seconds += visit["wall_seconds"].get<double>();
    return seconds;
  }

  // The first round always runs; another one only if one like those before still fits. Decided from
  // whole rounds and kept, so that a continued sweep decides as it would have.
  bool within_budget(int64_t round) const {
    if (round == 0 || sweep_.time_budget_seconds == 0 || !store_.resolved("rounds").is_null())
      return true;
    const bool begun = std::any_of(executed_.begin(), executed_.end(),
                                   [&](const Executed& e) { return e.visits > round; });
    return begun || spent() * static_cast<double>(round + 1) / static_cast<double>(round) <=
                        sweep_.time_budget_seconds;
  }

  std::vector<size_t> order_of(int64_t round) const {
    std::vector<size_t> order(executed_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::mt19937_64 random(sweep_.seed * 1000003 + static_cast<uint64_t>(round));
    std::shuffle(order.begin(), order.end(), random);
    return order;
  }

  void visit(Executed& executed, int64_t round) {
    const double begin = now();
    Prepared& prepared = *executed.prepared;
    const int64_t warmup = round == 0 ? warmup_of(executed) : 0;
    const int64_t steps = warmup + timed_steps_per_visit(executed);
    const Settings settings = settings_for(*executed.point);
    const Outcome outcome = run_real(prepared, settings, {steps, warmup});
    json result = result_of(prepared, outcome, settings);
    if (round == 0) result["config"]["warmup"] = std::to_string(warmup);
    store_.add_visit(key_of(*executed.point),
                     {{"visit", round}, {"wall_seconds", now() - begin}, {"result", result}});
    ++executed.visits;
  }

  // Of the visits' projections the one in the middle.
  static json middle_projection(const std::vector<json>& visits) {
    std::vector<json> projections;
    for (const json& visit : visits)
      projections.push_back(visit["result"]["projected"]);
    std::sort(projections.begin(), projections.end(),
              [](const json& a, const json& b) { return a["step_seconds"] < b["step_seconds"]; });
    return projections[projections.size() / 2];
  }

  // One row from a point's visits: the first one's fields, all timed steps together.
  void finish_executed(const Executed& executed) {
    const std::string key = key_of(*executed.point);
    const std::vector<json>& visits = store_.visits(key);
    json result = visits.front()["result"];
    for (size_t i = 1; i < visits.size(); ++i)
      for (const json& step : visits[i]["result"]["steps"])
        result["steps"].push_back(step);
    summarize(result);
    if (result.contains("projected")) result["projected"] = middle_projection(visits);
    const Agreement agreement = agreement_of(*executed.point, sweep_, store_);
    result["checked"] = agreement.compared;
    if (!agreement.mismatch.empty()) {
      result["status"] = "failed";
      result["reason"] = agreement.mismatch;
    }
    finish(*executed.point, std::move(result));
  }

  void finish(const SweepPoint& point, json result) {
    set_heading(result, point, sweep_);
    store_.add_result(key_of(point), std::move(result));
    ++done_;
  }

  void report(const std::string& next) {
    const double elapsed = now() - begin_;
    double left = -1;
    if (!executed_.empty() && spent() > 0) {
      int64_t visits = 0;
      for (const Executed& executed : executed_)
        visits += executed.visits;
      const double all =
          static_cast<double>(rounds_needed()) * static_cast<double>(executed_.size());
      left = std::max(0.0,
                      spent() / static_cast<double>(visits) * (all - static_cast<double>(visits)));
      if (sweep_.time_budget_seconds > 0)
        left = std::min(left, sweep_.time_budget_seconds - spent());
    } else if (done_ > 0) {
      left = elapsed / static_cast<double>(done_) * static_cast<double>(total_ - done_);
    }
    progress_(done_, total_, next, left);
  }

  const Sweep& sweep_;
  Store& store_;
  const Progress& progress_;
  int jobs_;
  std::shared_ptr<CpuMemory> memory_;
  std::shared_ptr<CudaMemory> gpu_;
  std::vector<Executed> executed_;
  int64_t done_ = 0, total_ = 0;  // points of this sweep: the store may hold rows of others
  double begin_ = now();
};

}  // namespace

int64_t run_sweep(const Sweep& sweep, Store& store, const Progress& progress, int jobs) {
  return Runner(sweep, store, progress, jobs).run();
}

}  // namespace spillway
