// Models with latent attention and experts against published totals, MaxText's FLOP split and the
// bytes of published programs.
#include <cmath>
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "workloads/accounting.h"

namespace spillway {
namespace {

constexpr int64_t mebibyte = 1 << 20;

// Totals as the publishers' checkpoints hold them (DeepSeek-V3 without its MTP layer); active ones by
// hand from the sizes in the publishers' papers.
TEST(MoeAccounting, AgreesWithPublishedTotals) {
  struct Published {
    const char* model;
    int64_t total, active;
  };
  for (const Published& p : {Published{"deepseek-v3", 671026419200, 37552297472},
                             Published{"deepseek-v2", 235741434880, 21375800320},
                             Published{"deepseek-v2-lite", 15706484224, 2661150208},
                             Published{"kimi-k2", 1026408232448, 32861500928},
                             Published{"mixtral-8x7b", 46702792704, 12879925248},
                             Published{"qwen3-30b-a3b", 30532122624, 3353032704},
                             Published{"qwen3-8b", 8190735360, 8190735360},
                             Published{"qwen2.5-7b", 7615616512, 7615616512}}) {
    const ModelAccount a = account(load_model(p.model), 1, 4096);
    EXPECT_EQ(a.params_total, p.total) << p.model;
    EXPECT_EQ(a.params_active, p.active) << p.model;
  }
}

// MaxText's own functions, run on DeepSeek-V3's sizes: TFLOP a step, micro batch 8, sequence 4096.
TEST(MoeAccounting, FlopSplitOfDeepSeekIsTheOneOfMaxText) {
  const std::map<std::string, double> published = {
      {"routed_experts", 4017.615}, {"out_proj", 1408.474},   {"attention", 1006.053},
      {"shared_experts", 502.202},  {"query_up", 452.724},    {"dense_ffn", 233.784},
      {"kv_up", 201.211},           {"unembedding", 182.193}, {"query_down", 132.044},
      {"kv_down", 49.517},          {"router", 20.925}};
  const ModelAccount a = account(load_model("deepseek-v3"), 8, 4096);
  ASSERT_EQ(a.flops.size(), published.size());
  const auto printed = [](int64_t flops) {
    return std::round(static_cast<double>(flops) / 1e9) / 1e3;
  };
  int64_t sum = 0;
  for (const FlopPart& part : a.flops) {
    EXPECT_DOUBLE_EQ(printed(part.flops), published.at(part.name)) << part.name;
    sum += part.flops;
  }
  EXPECT_EQ(sum, a.flops_step_causal);
  EXPECT_DOUBLE_EQ(printed(a.flops_step_causal), 8206.742);
  EXPECT_EQ(a.flops.back().name, "attention");
  EXPECT_EQ(a.flops_step_full - a.flops_step_causal, a.flops.back().flops);
}

TEST(MoeAccounting, MtpLayersAreNeverInTheTotal) {
  ModelConfig config = load_model("deepseek-v3");
  const ModelAccount with = account(config, 8, 4096);
  EXPECT_EQ(with.mtp_unique, 11610068224);              // published: 11.5 B
  EXPECT_EQ(with.total_with_mtp_stored, 684489845504);  // published: 685 B
  config.mtp_layers = 0;
  const ModelAccount without = account(config, 8, 4096);
  EXPECT_FALSE(without.mtp_unique);
  EXPECT_FALSE(without.total_with_mtp_stored);
  EXPECT_EQ(without.params_total, with.params_total);
  EXPECT_EQ(without.flops_step_causal, with.flops_step_causal);
}

std::map<std::string, int64_t> activation_bytes(const ModelAccount& account,
                                                const std::string& segment) {
  std::map<std::string, int64_t> bytes;
  for (const ActivationSize& size : account.activations) {
    if (size.segment != segment) continue;
    EXPECT_TRUE(bytes.emplace(size.name, size.bytes).second) << size.name << " is listed twice";
  }
  return bytes;
}

// MiB of one layer of DeepSeek-V3 at batch 8, sequence 4096, as the shapes in NVIDIA's compiled
// program give them. `context` holds 16 MiB of log-sum-exp.
TEST(MoeAccounting, ActivationBytesOfDeepSeek) {
  const ModelAccount a = account(load_model("deepseek-v3"), 8, 4096);
  std::map<std::string, int64_t> wanted = {{"decoder_layer_input", 448},
                                           {"query_wa_proj", 96},
                                           {"mla_q", 96},
                                           {"kv_wa_proj", 36},
                                           {"mla_kv", 32},
                                           {"query_proj", 1536},
                                           {"key_proj", 1536},
                                           {"value_proj", 1024},
                                           {"context", 1024 + 16},
                                           {"attention_out", 1024},
                                           {"out_proj", 448},
                                           {"mlpwi_0", 1152},
                                           {"mlpwi_1", 1152},
                                           {"mlpwo", 448}};
  for (auto& entry : wanted)
    entry.second *= mebibyte;
  EXPECT_EQ(activation_bytes(a, "dense_layers"), wanted);
  wanted["mlpwi_0"] = wanted["mlpwi_1"] = 128 * mebibyte;  // the shared expert's
  wanted["moe_mlpwi_0"] = wanted["moe_mlpwi_1"] = 1024 * mebibyte;
  wanted["moe_mlpwo"] = 3584 * mebibyte;
  EXPECT_EQ(activation_bytes(a, "moe_layers"), wanted);
  EXPECT_EQ(a.moe_up_bytes_per_layer, (1024 + 128) * mebibyte);
  EXPECT_EQ(a.mla_latent_bytes_per_layer, (96 + 36) * mebibyte);
}

// mechanisms of NVIDIA's program: what its policy offloads and keeps, from the account alone.
TEST(MoeAccounting, KnownBytesOfTheOffloadPolicy) {
  const ModelAccount a = account(load_model("deepseek-v3"), 8, 4096);
  const std::set<std::string> offloaded = {"query_wa_proj", "kv_wa_proj",  "mlpwi_0",
                                           "mlpwi_1",       "moe_mlpwi_0", "moe_mlpwi_1"};
  const std::set<std::string> kept = {"decoder_layer_input", "out_proj"};
  int64_t host = 0, device = 0;
  for (const ActivationSize& size : a.activations) {
    if (offloaded.contains(size.name)) host += size.layers * size.bytes;
    if (kept.contains(size.name)) device += size.layers * size.bytes;
  }
  EXPECT_EQ(host, 61 * 2436 * mebibyte);   // 145.1 GiB
  EXPECT_EQ(device, 61 * 896 * mebibyte);  // 53.4 GiB
}

TEST(MoeAccounting, QueriesProjectedDirectlyHaveNoLatent) {
  const ModelAccount a = account(load_model("deepseek-v2-lite"), 1, 4096);
  const auto bytes = activation_bytes(a, "moe_layers");
  EXPECT_FALSE(bytes.contains("query_wa_proj"));
  EXPECT_FALSE(bytes.contains("mla_q"));
  EXPECT_EQ(a.mla_latent_bytes_per_layer, 2 * 4096 * 576);
  EXPECT_EQ(a.moe_up_bytes_per_layer, 2 * 4096 * 8 * 1408);  // 6 routed, 2 shared
  EXPECT_FALSE(a.head_dim);
}

TEST(MoeAccounting, InterleavedLayersAreCountedAllTheSame) {
  ModelConfig config = load_model("deepseek-v3");
  const ModelAccount in_order = account(config, 2, 8192);
  config.interleaved_layers = true;
  EXPECT_EQ(account(config, 2, 8192).params_total, in_order.params_total);
}

// 468 M parameters, 20 layers; every ratio of the router is DeepSeek-V3's own but for the number of
// experts.
TEST(MoeAccounting, ProxyHasTheSizesOfItsSpecification) {
  const ModelConfig config = load_model("deepseek-v3-proxy");
  EXPECT_EQ(account(config, 8, 256).params_total, 468202944);
  EXPECT_EQ(config.dense_layers, 2);
  EXPECT_EQ(config.moe_layers, 18);
  EXPECT_EQ(config.micro_batch, 8);
  EXPECT_EQ(config.seq, 256);
  ASSERT_TRUE(config.proxy_of);
  EXPECT_EQ(config.proxy_of->model, "deepseek-v3");
  EXPECT_EQ(config.proxy_of->policy, "deepseek_v3_offload");
  EXPECT_EQ(config.rope, load_model("deepseek-v3").rope);
}

}  // namespace
}  // namespace spillway
