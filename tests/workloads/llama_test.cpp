// Shape of the program: well-formed for any config, counts what the formulas count, names what
// MaxText names. What it computes is llama_golden_test.cpp.
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "harness/error.h"
#include "harness/ops.h"
#include "tests/workloads/support.h"
#include "workloads/accounting.h"
#include "workloads/workload.h"

namespace spillway {
namespace {

ModelConfig odd_config() {
  return parse_config(
      R"({"model_type": "llama", "hidden_size": 30, "intermediate_size": 77, "vocab_size": 53,
      "num_hidden_layers": 5, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 14})",
      "odd");
}

double flops_of(const Program& program, const Op& op) {
  const OpCost cost = info(op.kind).cost(program, op);
  return cost.matmul_flops + cost.attention_flops;
}

TEST(Llama, IsWellFormed) {
  ModelConfig one_layer = odd_config(), tied = odd_config();
  set_layers(one_layer, 1);
  tied.tie_word_embeddings = true;
  for (const ModelConfig& config : {load_model("llama-tiny"), load_model("llama3.1-405b-proxy"),
                                    load_model("llama3.1-405b"), odd_config(), one_layer, tied})
    for (const Precision precision :
         {Precision::fp32, Precision::bf16, Precision::fp8, Precision::nvfp4})
      for (const int64_t bytes : {2, 4}) {
        WorkloadOptions options = point(3, 37, precision);
        options.state_bytes = {bytes, 2, 4, bytes};
        EXPECT_NO_THROW(verify(build_program(config, options), Stage::built))
            << config.name << ' ' << bytes;
      }
}

// Without recomputation a program executes exactly what is counted.
TEST(Llama, ExecutesTheCountedFlops) {
  const std::vector<std::pair<ModelConfig, WorkloadOptions>> points = {
      {load_model("llama3.1-405b"), point(2, 8192)},
      {load_model("llama3.1-70b"), point(1, 4096)},
      {load_model("llama3.1-405b-proxy"), point(2, 1024)},
      {odd_config(), point(3, 37)}};
  for (const auto& [config, options] : points) {
    const ModelAccount counted = account(config, options.micro_batch, options.seq);
    const ExecutedFlops executed = executed_flops(build_program(config, options));
    EXPECT_DOUBLE_EQ(executed.matmul, static_cast<double>(counted.flops_step_causal))
        << config.name;
  }
}

// 405B, batch 2, sequence 8192, everything recomputed but the last projection of a layer: 51,465.8
// TFLOP; Q, K and V projections are 1,246.8 of them and the tiled backward repeats QK^T for 277.1.
TEST(Llama, RecomputedFlopsOf405B) {
  const Program program = build_program(load_model("llama3.1-405b"), point(2, 8192));
  const ExecutedFlops executed = executed_flops(program);
  double recomputed = 0, qkv = 0;
  for (const Op& op : segment_of(program, "layers.forward").ops) {
    const double flops = 126 * flops_of(program, op);
    if (op.name != "down_proj") recomputed += flops;
    if (op.name == "q_proj" || op.name == "k_proj" || op.name == "v_proj") qkv += flops;
  }
  EXPECT_NEAR((executed.matmul + recomputed) / 1e12, 51465.8, 0.05);
  EXPECT_NEAR(qkv / 1e12, 1246.8, 0.05);
  EXPECT_NEAR(executed.attention_backward_extra / 1e12, 277.1, 0.05);
}

// One layer's tensors of every name; MiB as in Accounting's test, log-sum-exp apart.
TEST(Llama, NamesWhatMaxTextNames) {
  const Program program = build_program(load_model("llama3.1-405b"), point(2, 8192));
  std::multimap<std::string, int64_t> mebibytes;
  for (const Tensor& tensor : program.tensors)
    for (const std::string& name : tensor.activations)
      mebibytes.emplace(name, tensor.slice_bytes() >> 20);
  const std::multimap<std::string, int64_t> expected = {{"decoder_layer_input", 512},
                                                        {"query_proj", 512},
                                                        {"key_proj", 32},
                                                        {"value_proj", 32},
                                                        {"context", 512},
                                                        {"context", 8},
                                                        {"attention_out", 512},
                                                        {"out_proj", 512},
                                                        {"mlpwi_0", 1664},
                                                        {"mlpwi_1", 1664},
                                                        {"mlpwo", 512}};
  EXPECT_EQ(mebibytes, expected);
}

TEST(Llama, StateHoldsEveryParameterOnce) {
  for (const bool tie : {false, true}) {
    ModelConfig config = load_model("llama3.1-405b-proxy");
    config.tie_word_embeddings = tie;
    const int64_t parameters = account(config, 1, 1).params_total;
    // Hand arithmetic, "315 M"; a tied head saves one table.
    EXPECT_EQ(parameters, tie ? 315311104 - 8016 * 1024 : 315311104);
    std::map<Role, int64_t> bytes;
    for (const Tensor& tensor : build_program(config, point(2, 1024)).tensors)
      if (tensor.extent == Extent::persistent) bytes[tensor.role] += tensor.bytes();
    EXPECT_EQ(bytes[Role::parameter], 6 * parameters);  // fp32 and its bf16 copy
    EXPECT_EQ(bytes[Role::optimizer], 8 * parameters);
    EXPECT_EQ(bytes[Role::gradient], 4 * parameters);
  }
}

TEST(Llama, StateBytesDecideDtypesAndCopies) {
  WorkloadOptions options = point(1, 8);
  options.state_bytes = {2, 2, 4, 2};
  std::map<std::string, const Tensor*> by_name;
  const Program program = build_program(load_model("llama-tiny"), options);
  for (const Tensor& tensor : program.tensors)
    by_name[tensor.name] = &tensor;
  const std::string up = "layers.mlp.up_proj.weight";
  EXPECT_EQ(by_name.at(up)->dtype, DType::bf16);
  EXPECT_EQ(by_name.at(up)->init, Init::normal);
  EXPECT_EQ(by_name.at(up + ".m")->dtype, DType::bf16);
  EXPECT_EQ(by_name.at(up + ".v")->dtype, DType::f32);
  EXPECT_EQ(by_name.at(up + ".gradient")->dtype, DType::bf16);
  EXPECT_FALSE(by_name.contains(up + ".master"));

  const Program mixed = build_program(load_model("llama-tiny"), point(1, 8));
  for (const Tensor& tensor : mixed.tensors) {
    if (tensor.role != Role::parameter || tensor.dtype != DType::bf16) continue;
    EXPECT_EQ(tensor.init, Init::none);
    EXPECT_EQ(mixed.at(tensor.init_from).name, tensor.name + ".master");
  }
}

TEST(Llama, EveryGradientSliceIsWrittenOnceAndUsedByTheOptimizer) {
  const Program program = build_program(odd_config(), point(2, 9));
  // Nine weights a layer, embedding, final norm, head.
  EXPECT_EQ(gradient_slices_written_once(program), 9 * 5 + 3);
}

TEST(Llama, QuantisedPrecisionsApplyToTheirMatmuls) {
  WorkloadOptions options = point(1, 16, Precision::nvfp4);
  options.projection_precision = Precision::fp8;
  std::map<Precision, int> matmuls;
  for (const Segment& segment : build_program(load_model("llama-tiny"), options).segments)
    for (const Op& op : segment.ops)
      if (op.kind == OpKind::matmul) ++matmuls[op.attributes.precision];
  // Forward, input gradient and weight gradient of three MLP matmuls, four projections, the head.
  EXPECT_EQ(matmuls, (std::map<Precision, int>{
                         {Precision::nvfp4, 9}, {Precision::fp8, 12}, {Precision::bf16, 3}}));
}

TEST(Llama, BadPointsAreRefused) {
  const ModelConfig config = load_model("llama-tiny");
  EXPECT_THROW(build_program(config, point(0, 8)), InputError);
  EXPECT_THROW(build_program(config, point(1, -8)), InputError);
  EXPECT_THROW(build_program(config, point(int64_t{1} << 40, int64_t{1} << 40)), InputError);
  EXPECT_THROW(build_program(config, point(int64_t{1} << 30, int64_t{1} << 30)),
               InputError);  // hidden
  WorkloadOptions options = point(1, 8);
  options.state_bytes.v = 3;
  EXPECT_THROW(build_program(config, options), InputError);
  options = point(1, 8, Precision::nvfp4);
  options.projection_precision = Precision::fp32;
  EXPECT_THROW(build_program(config, options), InputError);
}

}  // namespace
}  // namespace spillway
