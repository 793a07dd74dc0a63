// What no single option can say of a point: options that exclude or need each other.
#include "harness/error.h"
#include "sweeps/link.h"
#include "sweeps/point.h"

namespace spillway {

namespace {

// What only an execution does. A simulation that took no notice would pass for one that did, and a
// link matched to this CPU's speed would make its result depend on this machine.
void refuse_of_a_simulation(const Point& point) {
  const auto refuse = [](const char* option, const std::string& found, const char* why) {
    throw InputError(
        text(option, ": found ", found, ", but the simulator ", why, ", or --executor cpu"));
  };
  if (is_matched_link(point.link))
    refuse("--link", text("'", point.link, "'"), "takes the machine's link; expected GB/s");
  if (point.slow_copy != 1)
    refuse("--slow-copy", text(point.slow_copy), "slows no copy; expected 1");
  if (point.poison) refuse("--poison", "on", "holds no bytes to poison; expected off");
}

void refuse_but_on_a_gpu(const Point& point) {
  const auto refuse = [](const char* option, const char* expected) {
    throw InputError(
        text(option, ": only a GPU has it; expected ", expected, ", or --executor cuda"));
  };
  if (point.cuda_graph) refuse("--cuda-graph", "off");
  if (point.plain_attention) refuse("--attention", "cudnn");
  if (!point.timestamps) refuse("--timestamps", "on");
  if (point.l2_flush) refuse("--l2-flush", "off");
  if (point.matmul != MatmulBy::automatic) refuse("--matmul", "none");
  if (!point.algorithms.empty()) refuse("--algorithms", "none");
}

void refuse_of_a_gpu(const Point& point) {
  if (!point.link.empty())
    throw InputError(text("--link: found '", point.link,
                          "', but a GPU's copies go as fast as its link; expected none, or "
                          "--executor cpu"));
}

void refuse_of_an_execution(const Point& point) {
  const auto refuse = [](const char* option, const std::string& expected) {
    throw InputError(
        text(option, ": only a simulation has it; expected ", expected, ", or --executor sim"));
  };
  if (point.every_iteration) refuse("--every-iteration", "off");
  if (point.ranks.count != 1) refuse("--ranks", "1");
  if (point.ranks.rank_sigma != 0) refuse("--rank-jitter", "0");
  if (point.ranks.op_sigma != 0) refuse("--op-jitter", "0");
  if (point.ranks.straggler != 1) refuse("--straggler", "1");
}

}  // namespace

void verify_point(const Point& point) {
  if (point.model.empty()) throw InputError("--model: found nothing, expected a model");
  if (point.warmup >= point.steps)
    throw InputError(text("--warmup: found ", point.warmup, " of --steps ", point.steps,
                          ", expected fewer warm-up steps than steps"));
  if (point.executor == ExecutorKind::sim) refuse_of_a_simulation(point);
  if (point.executor != ExecutorKind::sim) refuse_of_an_execution(point);
  if (point.executor != ExecutorKind::cuda) refuse_but_on_a_gpu(point);
  if (point.executor == ExecutorKind::cuda) refuse_of_a_gpu(point);
  if (point.ranks.count > point.devices)
    throw InputError(text("--ranks: found ", point.ranks.count, " of --devices ", point.devices,
                          ", expected no more ranks than devices"));
  const bool narrow = point.precision == Precision::fp8 || point.precision == Precision::nvfp4;
  if (!narrow && point.projection_precision != Point{}.projection_precision)
    throw InputError(text("--projection-precision: found ", name_of(point.projection_precision),
                          " with --precision ", name_of(point.precision),
                          ", which projections have too; expected --precision fp8 or nvfp4"));
  if (point.rotation_copies && point.pipeline && point.pipeline_depth > 1)
    throw InputError(text("--pipeline-depth: found ", point.pipeline_depth,
                          " with --rotation-copies on, XLA's rotation, which carries one set of "
                          "copies; expected 1, or --rotation-copies off"));
  if ((point.latency_model == LatencyModel::measured) == point.profile.empty())
    throw InputError(text("--profile: found '", point.profile, "' with --latency-model ",
                          name_of(point.latency_model),
                          "; expected a file with --latency-model measured, and only then"));
  if (!point.moe.capacity_path && point.moe.capacity_factor != 1)
    throw InputError(text("--capacity-factor: found ", point.moe.capacity_factor,
                          " with --moe dropless, which drops no token; expected --moe capacity"));
  const bool ragged = point.moe.expert_parallel > 1 && !point.moe.capacity_path;
  if (point.moe.ragged_buffer_factor > 0 && !ragged)
    throw InputError(text("--ragged-buffer-factor: found ", point.moe.ragged_buffer_factor,
                          " where a device receives as many rows as it sends; expected "
                          "--expert-parallel above 1 and --moe dropless"));
  if (point.devices % point.moe.expert_parallel != 0)
    throw InputError(text("--expert-parallel: found ", point.moe.expert_parallel, " of --devices ",
                          point.devices, ", expected a divisor of the devices"));
}

}  // namespace spillway
