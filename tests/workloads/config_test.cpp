// config.json as people really have it: complete, sparse, odd and wrong.
#include "workloads/config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>

#include "harness/error.h"
#include "tests/workloads/support_config.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// A small complete config with `members` added; an earlier key of the same name is replaced.
std::string config_with(const std::string& members) {
  return R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "vocab_size": 100,
             "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2)" +
         (members.empty() ? "" : ", " + members) + "}";
}

ModelConfig parse_with(const std::string& members) {
  return parse_config(config_with(members), "c.json");
}
std::string error_with(const std::string& members) {
  return error_of([&] { parse_with(members); });
}

TEST(Config, ReadsEverySize) {
  const ModelConfig config = load_model(case_path("c01_llama31_405b.json"));
  EXPECT_EQ(config.hidden_size, 16384);
  EXPECT_EQ(config.intermediate_size, 53248);
  EXPECT_EQ(config.layers, 126);
  EXPECT_EQ(config.vocab_size, 128256);
  EXPECT_EQ(config.heads, 128);
  EXPECT_EQ(config.kv_heads, 8);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rope, (Rope{RopeKind::llama3, 500000, 8, 1, 4, 8192}));
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_THAT(config.warnings, IsEmpty());
}

TEST(Config, MissingAndNullKeyValueHeadsMeanAsManyAsHeads) {
  for (const char* file : {"c12a_kv_heads_missing.json", "c12b_kv_heads_null.json"}) {
    const ModelConfig config = load_model(case_path(file));
    EXPECT_EQ(config.kv_heads, 32) << file;
    EXPECT_EQ(config.head_dim, 128) << file;
    EXPECT_EQ(config.rope, Rope{}) << file;  // no scaling, theta 10000
  }
}

TEST(Config, WrongCasesNameFileKeyAndFinding) {
  struct Case {
    const char* file;
    std::vector<std::string> mentioned;
  };
  for (const Case& c :
       std::vector<Case>{{"c15_unknown_arch.json", {"model_type", "falcon_mamba", "llama"}},
                         {"c16_truncated.json", {"line 12", "column 27"}},
                         {"c17a_negative_layers.json", {"num_hidden_layers", "-32"}},
                         {"c17d_fractional.json", {"hidden_size", "4096.5"}},
                         {"c17e_string_number.json", {"num_hidden_layers", "\"32\""}},
                         {"c18b_1e999.json", {"hidden_size", "1e999"}}}) {
    const std::string error = error_of([&] { load_model(case_path(c.file)); });
    EXPECT_THAT(error, HasSubstr(c.file));
    for (const std::string& word : c.mentioned)
      EXPECT_THAT(error, HasSubstr(word));
  }
}

TEST(Config, ByteOrderMarkAndCrlfAreFineAndADuplicateKeyIsWarnedOf) {
  const ModelConfig config = load_model(case_path("c19a_bom_crlf_duplicate_key.json"));
  EXPECT_EQ(config.kv_heads, 8);
  EXPECT_EQ(config.hidden_size, 4096);
  EXPECT_THAT(config.warnings, ElementsAre(AllOf(HasSubstr("num_key_value_heads"), HasSubstr("16"),
                                                 HasSubstr("8"), HasSubstr("c19a"))));
}

TEST(Config, NestedDuplicatesCarryTheirPath) {
  const ModelConfig config = parse_with(
      R"("rope_scaling": {"rope_type": "linear", "rope_type": "default"}, "a": [{"b": 1, "b": {}}])");
  EXPECT_THAT(config.warnings,
              ElementsAre(AllOf(HasSubstr("rope_scaling.rope_type"), HasSubstr("linear"),
                                HasSubstr("default")),
                          AllOf(HasSubstr("a.b"), HasSubstr("first 1"), HasSubstr("an object"))));
}

TEST(Config, LayersAreLimited) {
  EXPECT_THAT(error_with("\"num_hidden_layers\": 100001"),
              AllOf(HasSubstr("c.json: num_hidden_layers: found 100001"), HasSubstr("100000")));
  EXPECT_EQ(parse_with("\"num_hidden_layers\": 100000").layers, 100000);
}

TEST(Config, SizesAreIntegersInRange) {
  for (const char* bad : {"0", "-1", "64.0", "1e3", "true", "[]", "\"64\"", "18446744073709551615",
                          "99999999999999999999", "1099511627777"})
    EXPECT_THAT(error_with(std::string("\"intermediate_size\": ") + bad),
                AllOf(HasSubstr("c.json: intermediate_size: found "),
                      HasSubstr("expected an integer from 1 to 2^40")))
        << bad;
  EXPECT_EQ(parse_with("\"intermediate_size\": 1099511627776").intermediate_size, int64_t{1} << 40);
}

TEST(Config, EverySizeIsRequired) {
  for (const char* key : {"model_type", "hidden_size", "intermediate_size", "vocab_size",
                          "num_hidden_layers", "num_attention_heads"}) {
    const std::string error = error_with(std::string("\"") + key + "\": null");
    EXPECT_THAT(error, AllOf(HasSubstr(std::string(key) + ": found "), HasSubstr("expected")))
        << key;
  }
  EXPECT_THAT(error_of([] { parse_config(R"({"model_type": "llama"})", "c.json"); }),
              HasSubstr("found nothing, expected an integer"));
}

TEST(Config, HeadsMustFit) {
  EXPECT_THAT(error_with("\"num_key_value_heads\": 3"),
              AllOf(HasSubstr("num_key_value_heads: found 3"), HasSubstr("4")));
  EXPECT_THAT(error_with("\"num_attention_heads\": 6"), HasSubstr("hidden_size: found 64"));
  EXPECT_THAT(error_with("\"hidden_size\": 60"),
              HasSubstr("hidden_size: found 60"));  // head_dim 15
  EXPECT_THAT(error_with("\"head_dim\": 5"),
              HasSubstr("head_dim: found 5, expected an even number"));
  EXPECT_EQ(parse_with("\"head_dim\": 24").head_dim, 24);  // need not be hidden / heads
  EXPECT_EQ(parse_with("\"head_dim\": null").head_dim, 16);
}

TEST(Config, RopeScaling) {
  const std::string four = R"("factor": 32, "low_freq_factor": 1, "high_freq_factor": 4)";
  const std::string complete = four + R"(, "original_max_position_embeddings": 4096)";
  const Rope wanted{RopeKind::llama3, 10000, 32, 1, 4, 4096};
  EXPECT_EQ(parse_with(R"("rope_scaling": {"rope_type": "llama3", )" + complete + "}").rope,
            wanted);
  EXPECT_EQ(parse_with(R"("rope_scaling": {"type": "llama3", )" + complete + "}").rope, wanted);
  EXPECT_EQ(
      parse_with(R"("rope_parameters": {"rope_theta": 7, "rope_type": "llama3", )" + complete + "}")
          .rope,
      (Rope{RopeKind::llama3, 7, 32, 1, 4, 4096}));
  EXPECT_EQ(parse_with(R"("rope_scaling": null, "rope_theta": 5e5)").rope, (Rope{.theta = 500000}));
  EXPECT_EQ(parse_with(R"("rope_scaling": {"rope_type": "default"})").rope, Rope{});
  EXPECT_THAT(error_with(R"("rope_scaling": {"rope_type": "llama3", )" + four + "}"),
              HasSubstr("rope_scaling.original_max_position_embeddings: found nothing"));
  for (const char* other : {"dynamic", "longrope", "mrope"})
    EXPECT_THAT(
        error_with(std::string(R"("rope_scaling": {"type": ")") + other + R"(", "factor": 2})"),
        AllOf(HasSubstr("rope_scaling.type: found"), HasSubstr(other), HasSubstr("llama3")));
  EXPECT_EQ(parse_with(R"("rope_scaling": {"type": "linear", "factor": 4})").rope,
            (Rope{.kind = RopeKind::linear, .factor = 4}));
  EXPECT_EQ(parse_with(R"("max_position_embeddings": 32768, "rope_theta": 1e6, "rope_scaling":
                          {"type": "yarn", "factor": 4, "attention_factor": 1.5, "truncate": false,
                           "beta_fast": 16})")
                .rope,
            (Rope{.kind = RopeKind::yarn,
                  .theta = 1e6,
                  .factor = 4,
                  .original_max_position = 32768,
                  .beta_fast = 16,
                  .attention_factor = 1.5,
                  .truncate = false}));
  EXPECT_THAT(error_with(R"("rope_scaling": {"type": "yarn", "factor": 4})"),
              HasSubstr("max_position_embeddings: found nothing"));
  EXPECT_THAT(error_with(R"("rope_scaling": {"factor": 4})"), HasSubstr("rope_scaling.rope_type"));
  EXPECT_THAT(error_with(R"("rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 4})"),
              HasSubstr("rope_scaling.type: found \"linear\""));
  EXPECT_THAT(error_with(R"("rope_scaling": {"type": "default", "mrope_section": [16, 24]})"),
              HasSubstr("rope_scaling.mrope_section"));
  EXPECT_THAT(error_with(R"("rope_parameters": {"full_attention": {"rope_theta": 1e4}})"),
              HasSubstr("rope_parameters.full_attention"));
  EXPECT_THAT(error_with(R"("rope_theta": 1e4, "rope_parameters": {"rope_theta": 1e6})"),
              HasSubstr("rope_theta: found 10000"));
  EXPECT_THAT(error_with("\"rope_scaling\": 8"),
              HasSubstr("rope_scaling: found 8, expected an object"));
  EXPECT_THAT(error_with("\"rope_theta\": 0"), HasSubstr("rope_theta: found 0"));
}

TEST(Config, VariantsThatWouldChangeTheModelAreRefused) {
  EXPECT_THAT(error_with("\"hidden_act\": \"gelu\""),
              AllOf(HasSubstr("hidden_act"), HasSubstr("gelu"), HasSubstr("silu")));
  EXPECT_THAT(error_with("\"attention_bias\": true"), HasSubstr("attention_bias: found true"));
  EXPECT_THAT(error_with("\"mlp_bias\": true"), HasSubstr("mlp_bias: found true"));
  EXPECT_THAT(error_with("\"mlp_bias\": 0"),
              HasSubstr("mlp_bias: found 0, expected true or false"));
  EXPECT_THAT(error_with("\"partial_rotary_factor\": 0.5"),
              HasSubstr("partial_rotary_factor: found 0.5"));
  EXPECT_TRUE(parse_with("\"tie_word_embeddings\": true").tie_word_embeddings);
}

TEST(Config, MalformedTextSaysWhere) {
  EXPECT_THAT(error_of([] { parse_config("{\n\"a\": 1,\n}", "c.json"); }),
              HasSubstr("c.json: parse error at line 3, column 1"));
  EXPECT_THAT(error_of([] { parse_config("", "c.json"); }), HasSubstr("line 1"));
  EXPECT_THAT(error_of([] { parse_config("{\"a\": \"\xff\"}", "c.json"); }), HasSubstr("line 1"));
  EXPECT_THAT(error_of([] { parse_config(std::string("{}\0", 3), "c.json"); }),
              HasSubstr("c.json: byte 2: found a NUL"));
  EXPECT_THAT(error_of([] { parse_config("[1, 2]", "c.json"); }),
              HasSubstr("found an array, expected an object"));
  EXPECT_THAT(error_of([] { parse_config(std::string(1000000, '['), "c.json"); }),
              HasSubstr("line 1"));
}

TEST(Config, ProxyKeys) {
  const std::string proxy = R"("proxy_of": {"model": "m", "micro_batch": 2, "seq": 64, "devices": 8,
                               "precision": "bf16", "policy": "full"}, "micro_batch": 1, "seq": 32)";
  const ModelConfig config = parse_with(proxy);
  ASSERT_TRUE(config.proxy_of);
  EXPECT_EQ(config.proxy_of->model, "m");
  EXPECT_EQ(config.proxy_of->devices, 8);
  EXPECT_EQ(config.micro_batch, 1);
  EXPECT_EQ(config.seq, 32);
  EXPECT_THAT(error_with(R"("proxy_of": {"model": "m", "micro_batch": 2, "seq": 64, "devices": 0,
                            "precision": "bf16", "policy": "full"})"),
              HasSubstr("proxy_of.devices: found 0"));
  EXPECT_THAT(error_with(R"("proxy_of": {"model": "m", "micro_batch": 2, "seq": 64, "devices": 1,
                            "precision": "int8", "policy": "full"})"),
              HasSubstr("proxy_of.precision: found \"int8\""));
}

TEST(Models, ShippedOnesLoadByName) {
  EXPECT_THAT(model_names(), UnorderedElementsAre(
                                 "llama-tiny", "llama3.1-8b", "llama3.1-70b", "llama3.1-405b",
                                 "llama3.1-405b-proxy", "qwen2.5-7b", "qwen3-8b", "qwen3-30b-a3b",
                                 "mixtral-8x7b", "mixtral-tiny", "deepseek-v2-lite", "deepseek-v2",
                                 "deepseek-v3", "deepseek-v3-proxy", "deepseek-tiny", "kimi-k2"));
  for (const std::string& name : model_names()) {
    const ModelConfig config = load_model(name);
    EXPECT_EQ(config.name, name);
    EXPECT_THAT(config.warnings, IsEmpty());
  }
}

// All widths of 405B over 16.
TEST(Models, ProxyIsASixteenthOfItsModel) {
  const ModelConfig proxy = load_model("llama3.1-405b-proxy"), full = load_model("llama3.1-405b");
  EXPECT_EQ(proxy.hidden_size * 16, full.hidden_size);
  EXPECT_EQ(proxy.intermediate_size * 16, full.intermediate_size);
  EXPECT_EQ(proxy.vocab_size * 16, full.vocab_size);
  EXPECT_EQ(proxy.heads * proxy.head_dim * 16, full.heads * full.head_dim);
  EXPECT_EQ(proxy.kv_heads * proxy.head_dim * 16, full.kv_heads * full.head_dim);
  EXPECT_EQ(proxy.rope, full.rope);
  EXPECT_EQ(proxy.layers, 24);
  EXPECT_EQ(proxy.micro_batch, 2);
  EXPECT_EQ(proxy.seq, 1024);
  ASSERT_TRUE(proxy.proxy_of);
  EXPECT_EQ(proxy.proxy_of->model, "llama3.1-405b");
  EXPECT_EQ(proxy.proxy_of->policy, "qkv_proj_offloaded");
}

TEST(Models, WhatIsNoModelIsRefused) {
  EXPECT_THAT(error_of([] { load_model("llama9"); }),
              AllOf(HasSubstr("llama9"), HasSubstr("llama3.1-405b-proxy")));
  EXPECT_THAT(error_of([] { load_model(SPILLWAY_SOURCE_DIR); }), HasSubstr("directory"));
  const auto large = std::filesystem::temp_directory_path() / "spillway_config_test_large.json";
  std::ofstream(large).put(' ');
  std::filesystem::resize_file(large, (size_t{16} << 20) + 1);
  EXPECT_THAT(error_of([&] { load_model(large.string()); }), HasSubstr("16 MiB"));
  std::filesystem::remove(large);
}

}  // namespace
}  // namespace spillway
