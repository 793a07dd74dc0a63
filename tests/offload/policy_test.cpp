// Policies: parsing, errors, and what the rewrite does to programs. That every policy computes the
// same gradients is shown by symbolic execution.
#include "offload/policy.h"

#include <gmock/gmock.h>

#include "harness/error.h"
#include "tests/offload/support.h"
#include "tests/support/interpreter.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

std::string error_of(const std::string& policy) {
  try {
    apply_policy(mlp_stack(3), parse_policy(policy));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(PolicyParse, PresetsAreMaxTexts) {
  EXPECT_TRUE(parse_policy("full").fates.empty());
  const Policy minimal = parse_policy("minimal");
  EXPECT_EQ(minimal.fates.size(), 10u);  // mechanisms 1.2: ten names
  EXPECT_EQ(minimal.fates.count("context"), 0u);
  EXPECT_EQ(parse_policy("minimal_with_context").fates.at("context"), Fate::device);
  EXPECT_EQ(parse_policy("minimal_flash").fates, parse_policy("minimal_with_context").fates);
  const Policy qkv = parse_policy("qkv_proj_offloaded");
  EXPECT_TRUE(qkv.preset);
  EXPECT_EQ(qkv.fates, (std::map<std::string, Fate>{{"query_proj", Fate::offload},
                                                    {"key_proj", Fate::offload},
                                                    {"value_proj", Fate::offload},
                                                    {"kv_proj", Fate::offload}}));
  const Policy moved = parse_policy("minimal_offloaded");
  EXPECT_EQ(moved.fates.size(), 10u);
  for (const auto& [name, fate] : moved.fates)
    EXPECT_EQ(fate, Fate::offload) << name;
}

TEST(PolicyParse, PairsByHand) {
  const Policy policy = parse_policy(" query_proj=offload, out_proj = device,context=remat");
  EXPECT_FALSE(policy.preset);
  EXPECT_EQ(policy.fates, (std::map<std::string, Fate>{{"query_proj", Fate::offload},
                                                       {"out_proj", Fate::device},
                                                       {"context", Fate::remat}}));
}

TEST(PolicyParse, MistakesNameWhatWasFoundAndExpected) {
  const std::map<std::string, std::vector<std::string>> mistakes = {
      {"qkv_offload", {"qkv_offload", "qkv_proj_offloaded", "minimal_flash"}},
      {"mlpwi_0=host", {"host", "device, offload or remat"}},
      {"mlpwi_0=offload,mlpwi_1", {"'mlpwi_1'", "name=fate"}},
      {"=offload", {"'=offload'"}},
      {"mlpwi_0=offload,mlpwi_0=remat", {"mlpwi_0", "offload", "remat"}},
      {"", {"nothing"}},
  };
  for (const auto& [given, words] : mistakes) {
    try {
      parse_policy(given);
      ADD_FAILURE() << "accepted '" << given << "'";
    } catch (const InputError& error) {
      for (const std::string& word : words)
        EXPECT_THAT(error.what(), HasSubstr(word)) << given;
    }
  }
}

TEST(PolicyApply, NamesThatMatchNothingAreErrorsByHandOnly) {
  EXPECT_THAT(error_of("query_proj=offload"),
              HasSubstr("decoder_layer_input, mlpwi_0, mlpwi_1, mlpwo"));
  EXPECT_THAT(error_of("qkv_proj=offload"), HasSubstr("query_proj, key_proj, value_proj"));
  EXPECT_THAT(error_of("mlpwi=device"), HasSubstr("mlpwi_0, mlpwi_1"));
  EXPECT_THAT(error_of("decoder_layer_input=remat"), HasSubstr("device or offload"));
  const PolicyResult result = apply_policy(mlp_stack(3), parse_policy("qkv_proj_offloaded"));
  EXPECT_THAT(result.summary.skipped,
              ElementsAre("key_proj", "kv_proj", "query_proj", "value_proj"));
  EXPECT_EQ(result.summary.offloaded_bytes, 0);
  EXPECT_THAT(result.summary.text(), HasSubstr("moves 0 bytes"));
}

TEST(PolicyApply, TwoNamesOfOneTensorMustAgree) {
  Program program = mlp_stack(3);
  for (Tensor& tensor : program.tensors) {
    if (tensor.name == "gate") tensor.activations = {"mlpwi_0", "moe_mlpwi_0"};
  }
  try {
    apply_policy(program, parse_policy("mlpwi_0=device,moe_mlpwi_0=offload"));
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("mlpwi_0=device"));
    EXPECT_THAT(error.what(), HasSubstr("moe_mlpwi_0=offload"));
  }
  // One name is enough, and the tensor is stored and counted once.
  const PolicyResult result = apply_policy(program, parse_policy("moe_mlpwi_0=offload"));
  EXPECT_EQ(result.summary.offloaded_bytes, 3 * 8 * 24 * 4);
  int64_t counted = 0;
  for (const auto& row : result.summary.rows)
    counted += row.fate == Fate::offload ? row.bytes : 0;
  EXPECT_EQ(counted, 3 * 8 * 24 * 4);
}

TEST(PolicyApply, FullRecomputesWhatTheBackwardReadsAndNoMore) {
  const PolicyResult result = apply_policy(mlp_stack(3), parse_policy("full"));
  const Segment& backward = segment_named(result.program, "layers.backward");
  // Not `down`: nothing reads mlpwo. Clones stand before their first reader, in forward order.
  EXPECT_THAT(op_names(backward),
              ElementsAre("norm.remat", "gate.remat", "up.remat", "swiglu.remat", "down.wgrad",
                          "down.dgrad", "swiglu.backward", "gate.wgrad", "gate.dgrad", "up.wgrad",
                          "up.dgrad", "d_normed", "norm.backward"));
  EXPECT_EQ(result.summary.recomputed_ops, 3 * 4);
  EXPECT_EQ(result.summary.recomputed_flops, 3 * 2 * (2.0 * 8 * 16 * 24));  // gate and up
  const Operand layer_weight = op_named(backward, "gate.remat").inputs[1];
  EXPECT_EQ(layer_weight.index, Index::at(-1, 2));
  const Tensor& hidden = tensor_named(result.program, "hidden");
  EXPECT_EQ(hidden.slices, 4);  // what enters three layers and what leaves the last
  EXPECT_FALSE(hidden.ring);
  EXPECT_EQ(hidden.role, Role::kept);
  EXPECT_EQ(result.summary.kept_bytes, 3 * 8 * 16 * 4);
}

TEST(PolicyApply, DeviceKeepsAStackThatTheForwardWritesDirectly) {
  const PolicyResult result =
      apply_policy(mlp_stack(3), parse_policy("mlpwi_0=device,mlpwo=device"));
  const Tensor& gate = tensor_named(result.program, "gate");
  EXPECT_EQ(gate.role, Role::kept);
  EXPECT_EQ(gate.extent, Extent::step);
  EXPECT_EQ(gate.slices, 3);
  const Segment& forward = segment_named(result.program, "layers.forward");
  EXPECT_EQ(op_named(forward, "gate").outputs[0].index, Index::at(1, 0));
  EXPECT_EQ(op_named(forward, "swiglu").inputs[0].index, Index::at(1, 0));
  const Segment& backward = segment_named(result.program, "layers.backward");
  EXPECT_EQ(op_named(backward, "swiglu.backward").inputs[0].index, Index::at(-1, 2));
  EXPECT_THAT(op_names(backward), Not(testing::Contains("gate.remat")));
  EXPECT_EQ(tensor_named(result.program, "down").extent,
            Extent::local);  // read by nobody: not kept
  for (const auto& row : result.summary.rows) {
    const int64_t expected = row.name == "mlpwi_0" ? 3 * 8 * 24 * 4 : 0;
    if (row.fate == Fate::device && row.name != "decoder_layer_input") {
      EXPECT_EQ(row.bytes, expected) << row.name;
    }
  }
}

TEST(PolicyApply, OffloadCopiesAfterTheProducerAndBackAtTheStart) {
  const PolicyResult result = apply_policy(
      mlp_stack(3), parse_policy("mlpwi_0=offload,decoder_layer_input=offload,mlpwo=offload"));
  EXPECT_THAT(
      op_names(segment_named(result.program, "layers.forward")),
      ElementsAre("d2h.hidden", "norm", "gate", "d2h.gate", "up", "swiglu", "down", "residual"));
  const std::vector<std::string> backward =
      op_names(segment_named(result.program, "layers.backward"));
  EXPECT_EQ(backward[0], "h2d.hidden");
  EXPECT_EQ(backward[1], "h2d.gate");
  const Tensor& host = tensor_named(result.program, "gate.host");
  EXPECT_EQ(host.space, Space::host);
  EXPECT_EQ(host.slices, 3);
  EXPECT_EQ(tensor_named(result.program, "gate").role, Role::in_flight);
  EXPECT_EQ(tensor_named(result.program, "gate.reload").role, Role::in_flight);
  EXPECT_TRUE(tensor_named(result.program, "hidden").ring);
  EXPECT_EQ(tensor_named(result.program, "hidden").slices, 2);
  EXPECT_FALSE(has_tensor(result.program, "down.host"));  // mlpwo is dead in the backward
  EXPECT_EQ(result.summary.offloaded_bytes, 3 * (8 * 24 + 8 * 16) * 4);
  EXPECT_EQ(
      op_named(segment_named(result.program, "layers.forward"), "d2h.gate").attributes.activation,
      "mlpwi_0");
}

// Under sharding the gather that the gradient needs serves the recomputation: one a weight.
TEST(PolicyApply, AGatheredWeightServesRecomputationAndGradient) {
  const PolicyResult result = apply_policy(sharded_mlp_stack(3), parse_policy("full"));
  const Segment& backward = segment_named(result.program, "layers.backward");
  int gathers = 0;
  for (const Op& op : backward.ops)
    gathers += op.kind == OpKind::all_gather ? 1 : 0;
  EXPECT_EQ(gathers, 4);  // norm, gate, up, down
  const std::vector<std::string> names = op_names(backward);
  EXPECT_THAT(std::vector<std::string>(names.begin(), names.begin() + 6),
              ElementsAre("cast.b.norm", "gather.b.norm", "norm.remat", "cast.b.gate",
                          "gather.b.gate", "gate.remat"));
}

TEST(PolicyApply, EveryPolicyComputesTheSame) {
  for (const int64_t layers : {1, 2, 4}) {
    for (const auto& stack : {mlp_stack, sharded_mlp_stack}) {
      const Program built = stack(layers);
      Interpreter meaning(built, Stage::built);
      meaning.step();
      meaning.step();
      for (const char* text : {"full", "minimal", "minimal_offloaded",
                               "mlpwi_0=device,mlpwi_1=offload", "decoder_layer_input=offload",
                               "decoder_layer_input=offload,mlpwi_0=offload,mlpwi_1=device",
                               "mlpwo=offload,mlpwi_1=device"}) {
        const Program program = apply_policy(built, parse_policy(text)).program;
        Interpreter run(program);
        run.step();
        run.step();
        EXPECT_EQ(run.persistent(), meaning.persistent()) << text << ", layers " << layers;
      }
    }
  }
}

}  // namespace
}  // namespace spillway
