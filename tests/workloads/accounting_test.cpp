// Against published totals and values computed by hand from MaxText's formulas.
#include "workloads/accounting.h"

#include <map>

#include <gmock/gmock.h>

#include "harness/error.h"

namespace spillway {
namespace {

struct Expected {
  const char* file;
  int64_t batch, seq;
  int64_t params, kv_heads, layers;
  int64_t q_bytes, k_bytes, qkv_layer, qkv_all;
  int64_t flops_causal, flops_full;
};

// Hand formulas, equal to published totals (405.9 B, 70.6 B, 6.74 B; 576 MiB a layer, 70.9 GiB).
constexpr Expected expected_counts[] = {
    {"c01_llama31_405b.json", 2, 8192, 405853388800, 8, 126, 536870912, 33554432, 603979776,
     76101451776, 41352494881701888, 43014956462899200},
    {"c03_llama31_70b.json", 2, 8192, 70553706496, 8, 80, 268435456, 33554432, 335544320,
     26843545600, 7360062116855808, 7887827698188288},
    {"c12a_kv_heads_missing.json", 1, 4096, 6738415616, 32, 32, 33554432, 33554432, 100663296,
     3221225472, 175569673125888, 188763812659200},
    {"c12b_kv_heads_null.json", 1, 4096, 6738415616, 32, 32, 33554432, 33554432, 100663296,
     3221225472, 175569673125888, 188763812659200},
};

TEST(Accounting, AgreesWithPublishedTotals) {
  for (const Expected& e : expected_counts) {
    SCOPED_TRACE(e.file);
    const ModelConfig config =
        load_model(std::string(SPILLWAY_SOURCE_DIR) + "/tests/workloads/cases/" + e.file);
    const ModelAccount a = account(config, e.batch, e.seq);
    EXPECT_EQ(a.params_total, e.params);
    EXPECT_EQ(a.params_active, e.params);
    EXPECT_EQ(a.head_dim, 128);
    EXPECT_EQ(a.kv_heads, e.kv_heads);
    EXPECT_EQ(a.dense_layers, e.layers);
    EXPECT_EQ(a.moe_layers, 0);
    EXPECT_EQ(a.q_bytes, e.q_bytes);
    EXPECT_EQ(a.k_bytes, e.k_bytes);
    EXPECT_EQ(a.v_bytes, e.k_bytes);
    EXPECT_EQ(a.qkv_bytes_per_layer, e.qkv_layer);
    EXPECT_EQ(a.qkv_bytes_all_layers, e.qkv_all);
    EXPECT_EQ(a.flops_step_causal, e.flops_causal);
    EXPECT_EQ(a.flops_step_full, e.flops_full);
  }
}

TEST(Accounting, DuplicateKeyCaseHasEightBillion) {
  const ModelConfig config = load_model(std::string(SPILLWAY_SOURCE_DIR) +
                                        "/tests/workloads/cases/c19a_bom_crlf_duplicate_key.json");
  EXPECT_EQ(account(config, 1, 1).params_total, 8030261248);  // published: 8.03 B
  EXPECT_EQ(account(load_model("llama3.1-8b"), 1, 1).params_total, 8030261248);
}

// Where doubles would lose the last digits: 7.4e17 and 8.5e17, exact integers of Python.
TEST(Accounting, LargePointIsExact) {
  const ModelAccount a = account(load_model("llama3.1-405b"), 8, 32768);
  EXPECT_EQ(a.flops_step_causal, 741438074004701184);
  EXPECT_EQ(a.flops_step_full, 847835615201329152);
}

// mechanisms of MaxText: MiB of one layer of 405B at batch 2, sequence 8192.
TEST(Accounting, ActivationBytesOfOneLayer) {
  const ModelAccount a = account(load_model("llama3.1-405b"), 2, 8192);
  const std::map<std::string, int64_t> mebibytes = {{"decoder_layer_input", 512},
                                                    {"query_proj", 512},
                                                    {"key_proj", 32},
                                                    {"value_proj", 32},
                                                    {"context", 512 + 8},
                                                    {"attention_out", 512},
                                                    {"out_proj", 512},
                                                    {"mlpwi_0", 1664},
                                                    {"mlpwi_1", 1664},
                                                    {"mlpwo", 512}};
  ASSERT_EQ(a.activations.size(), mebibytes.size());
  for (const ActivationSize& size : a.activations) {
    EXPECT_EQ(size.bytes, mebibytes.at(size.name) << 20) << size.name;
    EXPECT_EQ(size.layers, 126);
  }
}

TEST(Accounting, TiedEmbeddingCountsOnce) {
  ModelConfig config = load_model("llama-tiny");
  const ModelAccount untied = account(config, 1, 8);
  config.tie_word_embeddings = true;
  const ModelAccount tied = account(config, 1, 8);
  EXPECT_EQ(untied.params_total - tied.params_total, 256 * 64);
  EXPECT_EQ(untied.flops_step_causal, tied.flops_step_causal);  // the head is a matmul all the same
}

TEST(Accounting, WhatDoesNotFitIsRefused) {
  const ModelConfig config = load_model("llama3.1-405b");
  EXPECT_THROW(account(config, 8, int64_t{1} << 20), InputError);  // 8 x 2^40 x ...: above 2^63
  EXPECT_THROW(account(config, int64_t{1} << 62, 4), InputError);
  EXPECT_THROW(account(config, 0, 4096), InputError);
  EXPECT_THROW(account(config, 1, -1), InputError);
  try {
    account(config, 8, int64_t{1} << 20);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("FLOPs"));
  }
}

}  // namespace
}  // namespace spillway
