// Programs of the other families, run as they stand, against values of an independent
// implementation: loss, every gradient and every router's choice.
#include <algorithm>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/plain_run.h"
#include "tests/workloads/support_golden.h"

namespace spillway {
namespace {

// The layers [first, end) of the model that a stacked weight of the program holds.
std::pair<int64_t, int64_t> layers_of(const ModelConfig& config, const std::string& name) {
  if (name.starts_with("dense_layers.")) return {0, config.dense_layers};
  if (name.starts_with("moe_layers.")) return {config.dense_layers, config.layers};
  return {0, config.layers};
}

// "moe_layers.mlp.gate.weight" is "layers.block_sparse_moe.gate.weight" in a Mixtral checkpoint.
std::string checkpoint_name(const ModelConfig& config, std::string name) {
  const auto replace = [&name](const std::string& from, const std::string& to) {
    const size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, from.size(), to);
  };
  replace("dense_layers.", "layers.");
  replace("moe_layers.", "layers.");
  if (config.model_type != "mixtral") return name;
  replace("mlp.experts.gate_proj", "mlp.experts.w1");
  replace("mlp.experts.up_proj", "mlp.experts.w3");
  replace("mlp.experts.down_proj", "mlp.experts.w2");
  replace("layers.mlp.", "layers.block_sparse_moe.");
  return name;
}

std::vector<float> golden_tensor(const Golden& golden, const ModelConfig& config,
                                 const std::string& kind, const std::string& name) {
  const std::string stored = checkpoint_name(config, name);
  const auto [first, end] = layers_of(config, name);
  return name.find("layers.") == std::string::npos ? golden.tensor(kind, stored)
                                                   : golden.tensor(kind, stored, {first, end});
}

// One program with the golden weights, and the names of its weights as ops read them.
class GoldenRun {
 public:
  GoldenRun(const Golden& golden, const WorkloadOptions& options)
      : golden_(golden),
        config_(parse_config(golden.config_text(), "golden")),
        program_(build_program(config_, options)),
        run_(program_) {
    run_.set_tokens("tokens", golden.inputs());
    run_.set_tokens("targets", golden.targets());
    for (const Tensor& tensor : program_.tensors) {
      if (tensor.role != Role::parameter || tensor.name.ends_with(".master")) continue;
      names_.push_back(tensor.name);
      const std::vector<float> values = golden_tensor(golden, config_, "weight", tensor.name);
      run_.write(tensor.name, values);  // exact in bf16 too
      if (run_.has(tensor.name + ".master")) run_.write(tensor.name + ".master", values);
    }
  }

  void expect_loss(double tolerance) {
    run_.step();
    const double loss = golden_.number("loss");
    EXPECT_NEAR(run_.loss(), loss, tolerance * loss);
  }
  void expect_gradients(double tolerance) const {
    size_t compared = 0;
    for (const std::string& name : names_) {
      if (!run_.has(name + ".gradient")) continue;
      ++compared;
      EXPECT_LT(normalised_error(run_.read(name + ".gradient"),
                                 golden_tensor(golden_, config_, "gradient", name)),
                tolerance)
          << name;
    }
    EXPECT_GT(compared, 10u);
  }
  void expect_choices(double tolerance) const;
  void expect_second_loss(double tolerance) {  // the same tokens with the updated weights
    run_.step();
    const double loss = golden_.number("loss_after");
    EXPECT_NEAR(run_.loss(), loss, tolerance * loss);
  }

 private:
  const Golden& golden_;
  ModelConfig config_;
  Program program_;
  PlainRun run_;
  std::vector<std::string> names_;
};

// Stored in ascending order of experts.
void GoldenRun::expect_choices(double tolerance) const {
  if (!config_.moe) return;
  const std::string stack = config_.dense_layers > 0 ? "moe_layers." : "layers.";
  const std::vector<int32_t> experts = run_.read_integers(stack + "route_experts");
  const std::vector<float> weights = run_.read(stack + "route_weights");
  const auto k = static_cast<size_t>(config_.moe->top_k);
  size_t row = 0;
  for (int64_t layer = config_.dense_layers; layer < config_.layers; ++layer) {
    const RouterChoices expected = golden_.choices(layer);
    for (size_t t = 0; t * k < expected.experts.size(); ++t, ++row) {
      std::vector<size_t> order(k);
      std::iota(order.begin(), order.end(), row * k);
      std::ranges::sort(order, {}, [&](size_t i) { return experts[i]; });
      for (size_t j = 0; j < k; ++j) {
        EXPECT_EQ(experts[order[j]], expected.experts[t * k + j]) << layer << ' ' << t;
        EXPECT_NEAR(weights[order[j]], expected.weights[t * k + j], tolerance) << layer << ' ' << t;
      }
    }
  }
}

// Room for every token, wherever it goes: a sequence's tokens all fit into the slots of one expert.
WorkloadOptions with_room_for_all(const Golden& golden, WorkloadOptions options) {
  const ModelConfig config = parse_config(golden.config_text(), "golden");
  options.moe.capacity_path = true;
  options.moe.capacity_factor =
      static_cast<double>(config.moe->experts) / static_cast<double>(config.moe->top_k);
  return options;
}

class DecoderGolden : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cases, DecoderGolden,
                         testing::Values("tiny_deepseek", "tiny_deepseek_direct_q", "tiny_mixtral",
                                         "tiny_qwen2", "tiny_qwen3", "tiny_qwen3_moe"));

TEST_P(DecoderGolden, Fp32StepAgrees) {
  const Golden golden(GetParam());
  GoldenRun run(golden, options_of(golden, Precision::fp32));
  run.expect_loss(1e-5);
  run.expect_gradients(1e-4);
  run.expect_choices(1e-5);
  run.expect_second_loss(1e-5);
}

TEST_P(DecoderGolden, Bf16StepIsNear) {
  const Golden golden(GetParam());
  GoldenRun run(golden, options_of(golden, Precision::bf16));
  run.expect_loss(2e-2);
  run.expect_gradients(2e-2);
  run.expect_choices(2e-2);
  run.expect_second_loss(2e-2);
}

class ExpertGolden : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cases, ExpertGolden,
                         testing::Values("tiny_deepseek", "tiny_deepseek_direct_q", "tiny_mixtral",
                                         "tiny_qwen3_moe"));

TEST_P(ExpertGolden, MasksWithRoomForEveryTokenAgree) {
  const Golden golden(GetParam());
  GoldenRun run(golden, with_room_for_all(golden, options_of(golden, Precision::fp32)));
  run.expect_loss(1e-5);
  run.expect_gradients(1e-4);
  run.expect_choices(1e-5);
  run.expect_second_loss(1e-5);
}

}  // namespace
}  // namespace spillway
