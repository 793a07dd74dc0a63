// Steps in FP8 and NVFP4 on the CPU executor: policies and schedules change no bit of them, and they
// are neither the step in bf16 nor far from it.
#include <set>

#include <gtest/gtest.h>

#include "sweeps/run.h"

namespace spillway {
namespace {

struct NarrowRun {
  std::vector<double> losses;
  std::string digest;
  bool operator==(const NarrowRun&) const = default;
};

NarrowRun narrow_run(const std::string& model, Precision precision, const std::string& policy,
                     bool lhs, bool pipeline) {
  Point point;
  point.model = model;
  point.executor = ExecutorKind::cpu;
  point.micro_batch = 1;
  point.seq = 32;
  point.precision = precision;
  if (precision == Precision::nvfp4) point.projection_precision = Precision::fp8;
  point.policy = policy;
  point.lhs = lhs;
  point.pipeline = pipeline;
  point.poison = true;
  const Outcome outcome = run_cpu(prepare(point, {}), nullptr, 2, 0);
  return {outcome.losses, outcome.gradient_digest};
}

class NarrowStep : public testing::TestWithParam<std::tuple<const char*, Precision>> {};

TEST_P(NarrowStep, HasOneMeaning) {
  const auto& [model, precision] = GetParam();
  const NarrowRun plain = narrow_run(model, precision, "full", false, false);
  const std::string moved =
      "decoder_layer_input=offload,out_proj=offload,mlpwi_0=offload,mlpwi_1=device";
  for (const std::string& policy : {std::string("minimal"), moved})
    for (const bool lhs : {false, true})
      EXPECT_EQ(narrow_run(model, precision, policy, lhs, lhs), plain) << policy << " LHS " << lhs;
}

// Rounding to 3 bits moves a loss by far less than a hundredth and by more than nothing.
TEST_P(NarrowStep, IsNearTheStepInBf16) {
  const auto& [model, precision] = GetParam();
  const NarrowRun narrow = narrow_run(model, precision, "full", true, false);
  const NarrowRun wide = narrow_run(model, Precision::bf16, "full", true, false);
  EXPECT_NE(narrow.digest, wide.digest);
  for (size_t i = 0; i < wide.losses.size(); ++i)
    EXPECT_NEAR(narrow.losses[i], wide.losses[i], 0.01 * wide.losses[i]);
}

INSTANTIATE_TEST_SUITE_P(Models, NarrowStep,
                         testing::Combine(testing::Values("llama-tiny", "deepseek-tiny"),
                                          testing::Values(Precision::fp8, Precision::nvfp4)));

}  // namespace
}  // namespace spillway
