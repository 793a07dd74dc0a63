// What copies cost at full layer shapes: offload, scheduled and pipelined, beside recomputing all.
#include "tests/gpu/layers.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "harness/embedded.h"
#include "harness/error.h"
#include "harness/measurement.h"

namespace spillway {
namespace {

constexpr double most_exposed = 0.03, most_idle = 0.03;  // of a step
constexpr double longest_step = 3;                       // seconds
constexpr int64_t layer_steps = 5, layer_warmup = 2;

Settings settings_of(const Subject& subject) {
  Settings settings;
  settings.cuda = subject.memory;
  return settings;
}

Point base_point(const LayerModel& model) {
  Point point;
  point.model = model.model;
  point.executor = ExecutorKind::cuda;
  point.micro_batch = 1;
  point.seq = 1024;
  point.layers = model.first;
  point.state_bytes = {2, 2, 2, 2};
  point.steps = layer_steps;
  point.warmup = layer_warmup;
  return point;
}

Point offloading(Point point, const LayerModel& model) {
  point.policy = model.offload;
  point.pipeline = true;
  return point;
}

bool fits(const Subject& subject, const LayerModel& model, const Point& point) {
  const Settings settings = settings_of(subject);
  return plan_point(point, settings).status == Status::ok &&
         plan_point(offloading(point, model), settings).status == Status::ok;
}

// The busier copy lane's seconds in a step.
double copy_seconds(const LayerRun& run) {
  double longest = 0;
  for (const Lane lane : {Lane::d2h, Lane::h2d}) {
    std::vector<double> busy;
    for (const Trace& trace : run.outcome.traces)
      busy.push_back(lane_times(trace, lane).busy);
    longest = std::max(longest, statistics_of(busy).median);
  }
  return longest;
}

nlohmann::json shown_run(const LayerRun& run) {
  const double step = run.step_seconds();
  return {{"policy", run.prepared.point.policy},
          {"step_seconds", run.result["step_seconds"]},
          {"tflops_per_s", run.result["tflops_per_s_per_device"]},
          {"peak_hbm_bytes", run.result["peak_hbm_bytes"]},
          {"offloaded_bytes", run.result["offloaded_bytes_per_step"]},
          {"copy_seconds", copy_seconds(run)},
          {"exposed_of_step", run.result["exposed_transfer_seconds"].get<double>() / step},
          {"idle_of_step", run.result["compute_lane"]["idle_seconds"].get<double>() / step},
          {"loss", run.result["loss"]},
          {"gradient_digest", run.result["gradient_digest"]}};
}

// Copies that take longer than what they could hide behind cannot be hidden.
void judge(const LayerRun& remat, const LayerRun& offload, Finding& finding) {
  const double step = offload.step_seconds();
  const double exposed = offload.result["exposed_transfer_seconds"];
  const double busy = offload.result["compute_lane"]["busy_seconds"];
  const double unavoidable = std::max(0.0, copy_seconds(offload) - busy);
  if (!(exposed <= unavoidable + most_exposed * step))
    finding.fail(text("copies stand exposed for ", exposed, " s of a step of ", step,
                      " s, unavoidable are ", unavoidable, " s"));
  for (const LayerRun* run : {&remat, &offload}) {
    const double idle = run->result["compute_lane"]["idle_seconds"];
    if (!(idle <= most_idle * run->step_seconds()))
      finding.fail(text(run->prepared.point.policy, ": the compute lane is idle for ", idle,
                        " s of ", run->step_seconds()));
  }
  if (remat.result["loss"] != offload.result["loss"] ||
      remat.result["gradient_digest"] != offload.result["gradient_digest"])
    finding.fail("offloading changes the loss or the gradients");
}

Finding check_layers(const Subject& subject, const LayerModel& model, const Effort& effort) {
  Finding finding;
  if (subject.kernels != cuda_kernel || effort.small) {
    finding.verdict = Verdict::skipped;
    finding.reason = "full-size layers need a GPU";
    return finding;
  }
  const Point point = fitting_point(subject, model, longest_step);
  finding.figures["layers"] = *point.layers;
  finding.figures["seq"] = *point.seq;
  const LayerRun remat = run_layers(subject, point);
  finding.figures["remat"] = shown_run(remat);
  const LayerRun offload = run_layers(subject, offloading(point, model));
  finding.figures["offload"] = shown_run(offload);
  finding.figures["offload_over_remat"] = offload.step_seconds() / remat.step_seconds();
  finding.figures["predicted_offload_over_remat"] =
      predicted_seconds(subject, offload.prepared.point) /
      predicted_seconds(subject, remat.prepared.point);
  judge(remat, offload, finding);
  finding.figures["rates"] = rates_of(subject, remat, effort, finding);
  return finding;
}

// DeepSeek-V3 with 64 experts: what one of four expert-parallel ranks holds. All 256 of one layer
// with their state are more than a GPU has, and loops need several layers.
class FewExperts {
 public:
  FewExperts()
      : path_(std::filesystem::temp_directory_path() /
              text("spillway-deepseek-v3-64-experts-", ::getpid(), ".json")) {
    for (const EmbeddedFile& file : embedded_models()) {
      if (file.name != "deepseek-v3.json") continue;
      nlohmann::json config = nlohmann::json::parse(file.text);
      config["n_routed_experts"] = 64;
      std::ofstream(path_) << config.dump();
    }
  }
  ~FewExperts() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  FewExperts(const FewExperts&) = delete;
  FewExperts& operator=(const FewExperts&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

LayerRun run_layers(const Subject& subject, const Point& point) {
  const Settings settings = settings_of(subject);
  LayerRun run{prepare(point, settings), {}, {}};
  if (run.prepared.status != Status::ok) throw RunError(run.prepared.reason);
  run.outcome = run_real(run.prepared, settings, {point.steps, point.warmup});
  run.result = result_of(run.prepared, run.outcome, settings);
  return run;
}

Point fitting_point(const Subject& subject, const LayerModel& model, double seconds) {
  Point point = base_point(model);
  point.steps = 2;
  point.warmup = 1;
  double step = run_layers(subject, point).step_seconds();
  point = base_point(model);
  // Attention grows faster than its tokens.
  for (step *= 2.5; *point.seq < 8192 && step <= seconds; step *= 2.5) {
    Point longer = point;
    longer.seq = *point.seq * 2;
    if (!fits(subject, model, longer)) break;
    point = longer;
  }
  for (int64_t layers = model.first + 1; layers <= model.most; ++layers) {
    Point more = point;
    more.layers = layers;
    if (!fits(subject, model, more)) break;
    point = more;
  }
  return point;
}

double predicted_seconds(const Subject& subject, Point point) {
  point.executor = ExecutorKind::sim;
  point.machine = machine_of_gpu(device_of(*subject.memory).name);
  point.hbm_bytes = int64_t{1} << 40;
  point.host_bytes = int64_t{1} << 40;
  return run_point(point, {})["step_seconds"]["median"];
}

Finding check_llama(const Subject& subject, const Effort& effort) {
  return check_layers(subject, {"llama3.1-405b", "qkv_proj_offloaded", 1, 8}, effort);
}

Finding check_deepseek(const Subject& subject, const Effort& effort) {
  const FewExperts config;
  Finding finding = check_layers(subject, {config.path(), "deepseek_v3_offload", 4, 8}, effort);
  finding.figures["experts"] = "64 of 256, as on one of 4 ranks";
  return finding;
}

}  // namespace spillway
