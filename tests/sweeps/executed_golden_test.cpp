// Executed schedules against values of an independent implementation: whatever is kept, moved or
// recomputed, and however it is scheduled, a step gives the golden loss and gradients.
#include <cmath>
#include <cstring>
#include <span>

#include <gtest/gtest.h>

#include "harness/executor.h"
#include "harness/race.h"
#include "offload/pipeline.h"
#include "offload/policy.h"
#include "offload/scheduler.h"
#include "tests/support/golden.h"
#include "tests/sweeps/support_runs.h"
#include "workloads/workload.h"

namespace spillway {
namespace {

const std::vector<RunVariant> executed_variants = {
    {"full", true, false, false},
    {"minimal_with_context", false, false, false},
    {"qkv_proj_offloaded", false, false, false},
    {"qkv_proj_offloaded", true, true, false},
    {"minimal_offloaded", true, true, true},
    {"decoder_layer_input=offload", true, true, false}};

struct Run {
  Schedule schedule;
  Plan plan;
  std::unique_ptr<CpuExecutor> executor;
};

Run run_of(const Golden& golden, const std::string& name, Precision precision,
           const RunVariant& variant) {
  WorkloadOptions options;
  options.micro_batch = golden.batch();
  options.seq = golden.seq();
  options.precision = precision;
  const Program built = build_program(parse_config(golden.config_text(), name), options);
  PipelineOptions rotation;
  rotation.host_copies = variant.pipeline;
  rotation.rotation_copies = variant.rotation_copies;
  SchedulerOptions scheduling;
  scheduling.lhs = variant.lhs;
  scheduling.seconds = [](const Program& program, const Op& op) {
    const OpCost cost = info(op.kind).cost(program, op);
    return (cost.matmul_flops + cost.attention_flops) / 1e11 +
           (cost.bytes + cost.link_bytes) / 1e10;
  };
  Run run;
  run.schedule =
      schedule_program(
          pipeline(apply_policy(built, parse_policy(variant.policy)).program, rotation), scheduling)
          .schedule;
  run.plan = plan_memory(run.schedule);
  run.schedule = drop_implied_waits(std::move(run.schedule), run.plan);
  EXPECT_FALSE(find_race(run.schedule, run.plan));
  CpuOptions cpu;
  cpu.poison = true;
  run.executor = std::make_unique<CpuExecutor>(run.schedule, run.plan, cpu);
  return run;
}

template <class T>
std::vector<std::byte> bytes_of_values(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// The golden weights are exact in bf16, so the upper half of each float is the value.
std::vector<std::byte> weight_bytes(const std::vector<float>& values, DType dtype) {
  if (dtype == DType::f32) return bytes_of_values(values);
  std::vector<uint16_t> halves;
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    halves.push_back(static_cast<uint16_t>(bits >> 16));
  }
  return bytes_of_values(halves);
}

// "layers.mlp.up_proj.weight" for the weight, its fp32 master and its gradient.
std::string weight_of(const std::string& tensor) {
  for (const char* suffix : {".master", ".gradient"})
    if (tensor.ends_with(suffix)) return tensor.substr(0, tensor.size() - std::strlen(suffix));
  return tensor;
}

void load(Run& run, const Golden& golden) {
  const Program& program = run.schedule.program;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& tensor = program.tensors[i];
    const auto id = static_cast<TensorId>(i);
    if (tensor.name == "tokens") run.executor->write(id, bytes_of_values(golden.inputs()));
    if (tensor.name == "targets") run.executor->write(id, bytes_of_values(golden.targets()));
    const std::string weight = weight_of(tensor.name);
    if (tensor.role == Role::parameter && golden.has("weight", weight))
      run.executor->write(id, weight_bytes(golden.tensor("weight", weight), tensor.dtype));
  }
}

// ||a - b|| / ||b|| of a gradient against the golden one.
double gradient_error(const Run& run, TensorId id, const Golden& golden) {
  const std::vector<float> expected =
      golden.tensor("gradient", weight_of(run.schedule.program.at(id).name));
  const std::vector<std::byte> bytes = run.executor->read(id);
  std::vector<float> found(bytes.size() / sizeof(float));
  std::memcpy(found.data(), bytes.data(), bytes.size());
  EXPECT_EQ(found.size(), expected.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    difference += std::pow(double{found[i]} - double{expected[i]}, 2);
    size += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(difference / size);
}

void expect_golden(const std::string& name, Precision precision, double loss_bound,
                   double gradient_bound) {
  const Golden golden(name);
  for (const RunVariant& variant : executed_variants) {
    SCOPED_TRACE(name + ", " + variant.policy);
    Run run = run_of(golden, name, precision, variant);
    load(run, golden);
    EXPECT_NEAR(run.executor->step().loss, golden.number("loss"),
                loss_bound * golden.number("loss"));
    double worst = 0;
    int gradients = 0;
    const Program& program = run.schedule.program;
    for (size_t i = 0; i < program.tensors.size(); ++i) {
      if (program.tensors[i].role != Role::gradient) continue;
      worst = std::max(worst, gradient_error(run, static_cast<TensorId>(i), golden));
      ++gradients;
    }
    EXPECT_EQ(gradients, 12);  // embedding, nine weights of a layer, final norm, head
    EXPECT_LT(worst, gradient_bound);
    std::printf("%s, %s: worst gradient error %.2e\n", name.c_str(), variant.policy.c_str(), worst);
  }
}

class ExecutedGolden : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cases, ExecutedGolden, testing::Values("tiny", "odd", "mha"));

TEST_P(ExecutedGolden, Fp32) { expect_golden(GetParam(), Precision::fp32, 1e-5, 1e-4); }
TEST_P(ExecutedGolden, Bf16) { expect_golden(GetParam(), Precision::bf16, 2e-2, 2e-2); }

}  // namespace
}  // namespace spillway
