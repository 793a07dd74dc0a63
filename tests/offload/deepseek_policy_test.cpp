// Policies on programs with two stacks, latent attention and experts: what the published run moves
// and keeps, and that every policy computes the same gradients.
#include <gmock/gmock.h>

#include "harness/verify.h"
#include "offload/policy.h"
#include "tests/offload/support.h"
#include "tests/support/interpreter.h"
#include "workloads/shard.h"
#include "workloads/workload.h"

namespace spillway {
namespace {

using testing::IsEmpty;

constexpr int64_t mib = int64_t{1} << 20;

Program build(const std::string& model, bool capacity, int64_t batch, int64_t seq) {
  WorkloadOptions options;
  options.micro_batch = batch;
  options.seq = seq;
  options.moe.capacity_path = capacity;
  return build_program(load_model(model), options);
}

// mechanisms.md 1.6, micro batch 8, sequence 4096: latents 96 + 36, routed up-projections 2 x 1024,
// shared 2 x 128 MiB a layer are moved (2 x 1152 in a dense layer), layer input and attention output
// of 448 MiB each kept; 61 layers.
TEST(DeepSeekPolicy, MovesAndKeepsWhatThePublishedRunDoes) {
  for (const bool capacity : {false, true}) {
    const Program program = build("deepseek-v3", capacity, 8, 4096);
    const PolicySummary moved = apply_policy(program, parse_policy("deepseek_v3_offload")).summary;
    EXPECT_EQ(moved.offloaded_bytes, 61 * 2436 * mib);  // 145.1 GiB
    EXPECT_EQ(moved.kept_bytes, 61 * 896 * mib);        // 53.4 GiB
    EXPECT_THAT(moved.skipped, IsEmpty());
    const PolicySummary kept = apply_policy(program, parse_policy("deepseek_v3_device")).summary;
    EXPECT_EQ(kept.offloaded_bytes, 0);
    EXPECT_EQ(kept.kept_bytes, 61 * (2436 + 896) * mib);  // 198.5 GiB
    const PolicySummary full = apply_policy(program, parse_policy("full")).summary;
    EXPECT_EQ(full.kept_bytes, 61 * 448 * mib);
  }
}

TEST(DeepSeekPolicy, PresetsHaveTheSameNamesAndSkipThoseOfOtherModels) {
  const Policy moved = parse_policy("deepseek_v3_offload");
  Policy kept = parse_policy("deepseek_v3_device");
  EXPECT_EQ(moved.fates.size(), kept.fates.size());
  for (const auto& [name, fate] : kept.fates) {
    EXPECT_EQ(fate, Fate::device);
    EXPECT_TRUE(moved.fates.contains(name)) << name;
  }
  EXPECT_THAT(apply_policy(build("llama-tiny", false, 1, 8), moved).summary.skipped,
              testing::ElementsAre("kv_wa_proj", "moe_mlpwi_0", "moe_mlpwi_1", "query_wa_proj"));
}

// Each stack has residuals and host slots of its own; the layers' inputs are one stack through both.
TEST(DeepSeekPolicy, StacksKeepTheirOwn) {
  const Program program =
      apply_policy(build("deepseek-v3", false, 1, 64), parse_policy("deepseek_v3_offload")).program;
  EXPECT_EQ(tensor_named(program, "hidden").slices, 62);
  EXPECT_EQ(tensor_named(program, "dense_layers.o_proj").slices, 3);
  EXPECT_EQ(tensor_named(program, "moe_layers.o_proj").slices, 58);
  EXPECT_EQ(tensor_named(program, "dense_layers.gate_proj.host").slices, 3);
  EXPECT_EQ(tensor_named(program, "moe_layers.expert_gate_proj.host").slices, 58);
  const Program inputs_moved =
      apply_policy(build("deepseek-v3", false, 1, 64), parse_policy("decoder_layer_input=offload"))
          .program;
  EXPECT_EQ(tensor_named(inputs_moved, "hidden").slices, 2);
  EXPECT_EQ(tensor_named(inputs_moved, "hidden.host").slices, 3);
  EXPECT_EQ(tensor_named(inputs_moved, "moe_layers.hidden.host").slices, 58);
}

// What goes to other ranks in the forward goes there again for recomputation (the way back too: the
// router's gradient reads the experts' outputs), besides the gradients of both ways.
TEST(DeepSeekPolicy, RecomputationRepeatsTheExchanges) {
  const Program program = apply_policy(shard(build("deepseek-v3", false, 8, 4096), 128, {8, 1}),
                                       parse_policy("deepseek_v3_offload"))
                              .program;
  std::vector<std::string> exchanges;
  for (const Op& op : segment_named(program, "moe_layers.backward").ops)
    if (op.kind == OpKind::all_to_all) exchanges.push_back(op.name);
  EXPECT_THAT(exchanges,
              testing::UnorderedElementsAre(
                  "exchange.moe_layers.route_offsets.remat", "send.moe_layers.expert_rows.remat",
                  "return.moe_layers.expert_down_proj.remat", "send.moe_layers.d_expert_output",
                  "return.moe_layers.expert_gate_proj.input_gradient"));
}

struct Spread {
  int64_t devices, ranks;
};

TEST(DeepSeekPolicy, EveryPolicyComputesTheSame) {
  for (const char* model : {"deepseek-tiny", "mixtral-tiny", "deepseek-v2-lite"})
    for (const bool capacity : {false, true})
      for (const Spread spread : {Spread{1, 1}, Spread{4, 1}, Spread{4, 2}}) {
        const Program built =
            shard(build(model, capacity, 1, 8), spread.devices, {spread.ranks, 1});
        Interpreter meaning(built, Stage::built);
        meaning.step();
        meaning.step();
        for (const char* text :
             {"full", "minimal", "minimal_offloaded", "deepseek_v3_offload", "deepseek_v3_device",
              "decoder_layer_input=offload", "decoder_layer_input=offload,moe_mlpwo=device",
              "moe_mlpwi_0=device,moe_mlpwi_1=offload,context=offload"}) {
          const Program program = apply_policy(built, parse_policy(text)).program;
          Interpreter run(program);
          run.step();
          run.step();
          EXPECT_EQ(run.persistent(), meaning.persistent()) << model << ' ' << text;
        }
      }
}

}  // namespace
}  // namespace spillway
