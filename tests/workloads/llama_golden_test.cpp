// The program of a Llama step, run as it stands, against values of an independent implementation.
#include <gtest/gtest.h>

#include "tests/support/plain_run.h"
#include "tests/workloads/support_golden.h"

namespace spillway {
namespace {

const std::vector<std::string> weight_names = {"embed_tokens.weight",
                                               "layers.input_layernorm.weight",
                                               "layers.self_attn.q_proj.weight",
                                               "layers.self_attn.k_proj.weight",
                                               "layers.self_attn.v_proj.weight",
                                               "layers.self_attn.o_proj.weight",
                                               "layers.post_attention_layernorm.weight",
                                               "layers.mlp.gate_proj.weight",
                                               "layers.mlp.up_proj.weight",
                                               "layers.mlp.down_proj.weight",
                                               "norm.weight",
                                               "lm_head.weight"};

void load(PlainRun& run, const Golden& golden) {
  run.set_tokens("tokens", golden.inputs());
  run.set_tokens("targets", golden.targets());
  for (const std::string& name : weight_names) {
    const std::vector<float> values = golden.tensor("weight", name);  // exact in bf16 too
    run.write(name, values);
    if (run.has(name + ".master")) run.write(name + ".master", values);
  }
}

class LlamaGolden : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cases, LlamaGolden, testing::Values("tiny", "odd", "mha"));

TEST_P(LlamaGolden, Fp32StepAgrees) {
  const Golden golden(GetParam());
  const ModelConfig config = parse_config(golden.config_text(), GetParam());
  const Program program = build_program(config, options_of(golden, Precision::fp32));
  PlainRun run(program);
  load(run, golden);
  run.step();
  EXPECT_NEAR(run.loss(), golden.number("loss"), 1e-5 * golden.number("loss"));
  int compared = 0;
  for (const std::string& name : weight_names) {
    if (!golden.has("gradient", name)) continue;
    ++compared;
    EXPECT_LT(normalised_error(run.read(name + ".gradient"), golden.tensor("gradient", name)), 1e-4)
        << name;
  }
  EXPECT_GT(compared, 0);
  run.step();  // the same tokens with the updated weights
  EXPECT_NEAR(run.loss(), golden.number("loss_after"), 1e-5 * golden.number("loss_after"));
}

// Rounding alone, whoever does it: an fp32 step whose activations are rounded to bf16 after each op
// has the same errors.
TEST_P(LlamaGolden, Bf16StepIsNear) {
  const Golden golden(GetParam());
  const ModelConfig config = parse_config(golden.config_text(), GetParam());
  const Program program = build_program(config, options_of(golden, Precision::bf16));
  PlainRun run(program);
  load(run, golden);
  run.step();
  EXPECT_NEAR(run.loss(), golden.number("loss"), 2e-2 * golden.number("loss"));
  for (const std::string& name : weight_names) {
    if (!golden.has("gradient", name)) continue;
    EXPECT_LT(normalised_error(run.read(name + ".gradient"), golden.tensor("gradient", name)), 2e-2)
        << name;
  }
  run.step();
  EXPECT_NEAR(run.loss(), golden.number("loss_after"), 2e-2 * golden.number("loss_after"));
}

// Two tables with the same values have gradients whose sum is that of one table in both places.
TEST(LlamaTied, GradientIsTheSumOfBothUses) {
  const Golden golden("odd");
  ModelConfig config = parse_config(golden.config_text(), "odd");
  const Program untied = build_program(config, options_of(golden, Precision::fp32));
  config.tie_word_embeddings = true;
  const Program tied = build_program(config, options_of(golden, Precision::fp32));
  PlainRun two(untied), one(tied);
  load(two, golden);
  two.write("lm_head.weight", golden.tensor("weight", "embed_tokens.weight"));
  one.set_tokens("tokens", golden.inputs());
  one.set_tokens("targets", golden.targets());
  for (const std::string& name : weight_names)
    if (name != "lm_head.weight") one.write(name, golden.tensor("weight", name));
  two.step();
  one.step();
  EXPECT_FALSE(one.has("lm_head.weight"));
  EXPECT_EQ(one.loss(), two.loss());
  std::vector<float> sum = two.read("embed_tokens.weight.gradient");
  const std::vector<float> head = two.read("lm_head.weight.gradient");
  for (size_t i = 0; i < sum.size(); ++i)
    sum[i] += head[i];
  EXPECT_LT(normalised_error(one.read("embed_tokens.weight.gradient"), sum), 1e-6);
}

}  // namespace
}  // namespace spillway
