// What kernels reach in a step, beside the ceilings of this device in this run.
#include <algorithm>
#include <map>

#include "harness/error.h"
#include "harness/measurement.h"
#include "tests/gpu/layers.h"
#include "tests/gpu/timing.h"

namespace spillway {
namespace {

constexpr double least_of_alone = 0.95;  // of a matmul's rate by itself
constexpr double least_of_copy = 0.85;   // of a copy within the device
constexpr double much_memory = 128e6;    // bytes: below, a launch is a part of the time
constexpr double longest_alone = 0.1;    // seconds of a matmul that is run again

// All runs of the ops of one kind in a step.
struct KindRate {
  double seconds = 0, bytes = 0, flops = 0, smallest = 1e300;
};

// Work of a compute op as OpCost counts it, and how long it took in each of its iterations.
template <class Visit>
void for_each_timed(const LayerRun& run, const Visit& visit) {
  const Program& program = run.prepared.schedule.program;
  const auto seconds = mean_op_seconds(run.prepared.schedule, run.outcome.traces);
  for (size_t s = 0; s < program.segments.size(); ++s)
    for (size_t i = 0; i < program.segments[s].ops.size(); ++i) {
      const Op& op = program.segments[s].ops[i];
      if (lane_of(op) == Lane::compute && seconds[s][i] > 0)
        visit(op, info(op.kind).cost(program, op), seconds[s][i], program.segments[s].trips);
    }
}

std::map<OpKind, KindRate> rates_by_kind(const LayerRun& run) {
  std::map<OpKind, KindRate> rates;
  for_each_timed(run, [&](const Op& op, const OpCost& cost, double seconds, int64_t trips) {
    const auto times = static_cast<double>(trips);
    KindRate& rate = rates[op.kind];
    rate.seconds += seconds * times;
    rate.bytes += cost.bytes * times;
    rate.flops += (cost.matmul_flops + cost.attention_flops + cost.attention_extra_flops) * times;
    rate.smallest = std::min(rate.smallest, cost.bytes);
  });
  return rates;
}

// Matmuls by shape: the first of each, in the step and alone.
nlohmann::json matmuls(const Subject& subject, const LayerRun& run, const Effort& effort,
                       Finding& finding) {
  const Program& program = run.prepared.schedule.program;
  nlohmann::json shown = nlohmann::json::object();
  for_each_timed(run, [&](const Op& op, const OpCost& cost, double seconds, int64_t) {
    if (op.kind != OpKind::matmul || effort.over()) return;
    std::string shape =
        text(op.attributes.transpose_a ? "T" : "N", op.attributes.transpose_b ? "T" : "N");
    for (const auto* operands : {&op.inputs, &op.outputs})
      for (const Operand& operand : *operands)
        for (const int64_t extent : program.at(operand.tensor).shape)
          shape += text(" ", extent);
    if (shown.contains(shape)) return;
    const double rate = cost.matmul_flops / seconds;
    shown[shape] = {{"op", op.name}, {"tflops_per_s", rate / 1e12}};
    if (seconds > longest_alone) return;
    const double alone = product_rate(subject, program, op);
    shown[shape]["alone_tflops_per_s"] = alone / 1e12;
    if (!(rate >= least_of_alone * alone))
      finding.fail(text("matmul ", op.name, ": ", rate / 1e12, " TFLOP/s in a step, ", alone / 1e12,
                        " alone"));
  });
  return shown;
}

}  // namespace

nlohmann::json rates_of(const Subject& subject, const LayerRun& run, const Effort& effort,
                        Finding& finding) {
  const double copy = copy_ceiling(subject, int64_t{1} << 30);
  nlohmann::json kinds = nlohmann::json::object();
  for (const auto& [kind, rate] : rates_by_kind(run)) {
    const double achieved = rate.bytes / rate.seconds;
    kinds[info(kind).name] = {{"seconds", rate.seconds},
                              {"bytes_per_second", achieved},
                              {"of_copy", achieved / copy},
                              {"tflops_per_s", rate.flops / rate.seconds / 1e12}};
    const bool by_memory = rate.flops == 0 && rate.smallest >= much_memory;
    if (by_memory && !(achieved >= least_of_copy * copy))
      finding.fail(text(info(kind).name, ": ", achieved,
                        " bytes a second, a copy within the device ", copy));
  }
  nlohmann::json rates = {
      {"copy_bytes_per_second", copy},
      {"square_product_tflops_per_s", square_product_rate(subject, 4096) / 1e12},
      {"kinds", kinds}};
  rates["matmuls"] = matmuls(subject, run, effort, finding);
  return rates;
}

}  // namespace spillway
