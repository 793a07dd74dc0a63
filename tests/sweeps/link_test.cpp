// Rates of the copy lanes: how the option is spelled, and the formula of a matched one against
// arithmetic of its own.
#include "sweeps/link.h"

#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "tests/sweeps/support_cli.h"
#include "tests/sweeps/support_runs.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class Work>
std::string refusal(const Work& work) {
  try {
    work();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(LinkOptionTest, ReadsRatesAndMatches) {
  struct Case {
    const char* text;
    double rate;
    const char* machine;
    double divisor;
  };
  constexpr Case cases[] = {
      {"1.5", 1.5e9, "", 1},
      {"200", 200e9, "", 1},
      {"match:gb200-nvl72", 0, "gb200-nvl72", 1},
      {"match:gb200-nvl72/8", 0, "gb200-nvl72", 8},
      {"match:gb200-nvl72/0.5", 0, "gb200-nvl72", 0.5},
      {"match:/a/b/mine.json", 0, "/a/b/mine.json", 1},
      {"match:a/b/mine.json/8", 0, "a/b/mine.json", 8},
      {"match:./mine", 0, "./mine", 1},
  };
  for (const Case& c : cases) {
    const LinkOption option = parse_link_option(c.text);
    EXPECT_EQ(option.bytes_per_second, c.rate) << c.text;
    EXPECT_EQ(option.machine, c.machine) << c.text;
    EXPECT_EQ(option.divisor, c.divisor) << c.text;
  }
}

TEST(LinkOptionTest, RefusesWhatIsNoRate) {
  for (const char* bad : {"", "0", "-1", "fast", "1.5x", "1e999", "nan", "match:", "match:/8",
                          "match:gb200-nvl72/0", "match:gb200-nvl72/0.0", "match:m/1.2.3"})
    EXPECT_THAT(refusal([&] { parse_link_option(bad); }),
                AllOf(HasSubstr("--link"), HasSubstr("found"), HasSubstr("expected")))
        << "'" << bad << "'";
}

TEST(LinkProbe, HoldsLayersOfTheLastKind) {
  EXPECT_EQ(layers_to_probe(load_model("llama3.1-405b-proxy"), 3), 3);
  EXPECT_EQ(layers_to_probe(load_model("deepseek-v3-proxy"), 3), 2 + 3);  // after 2 dense ones
}

// A Llama of 4 layers whose layer takes milliseconds, said to stand for the published point.
constexpr const char* proxy = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 256, "intermediate_size": 640, "num_hidden_layers": 4, "num_attention_heads": 8,
  "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 4096,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "micro_batch": 1, "seq": 256,
  "proxy_of": {"model": "llama3.1-405b", "micro_batch": 2, "seq": 8192, "devices": 128,
               "precision": "nvfp4", "policy": "qkv_proj_offloaded"}})";

Point point_of(const std::string& model, const std::string& link) {
  Point point;
  point.model = model;
  point.link = link;
  return point;
}

Settings shared_arenas() {
  Settings settings;
  settings.memory = std::make_shared<CpuMemory>();
  return settings;
}

// Seconds of a layer of the full-size point: what 63 layers more cost, over 63.
double simulated_layer_seconds() {
  Point point = point_of("llama3.1-405b", "");
  point.executor = ExecutorKind::sim;
  point.machine = "gb200-nvl72";
  point.devices = 128;
  point.micro_batch = 2;
  point.seq = 8192;
  point.precision = Precision::nvfp4;
  point.projection_precision = Precision::fp8;
  point.policy = "qkv_proj_offloaded";
  point.pipeline_collectives = true;
  Settings settings;
  settings.free_transfers = true;
  const auto step = [&](int64_t layers) {
    point.layers = layers;
    return run_sim(prepare(point, settings)).traces.front().seconds;
  };
  return (step(126) - step(63)) / 63;
}

// Seconds of a proxy layer by five pairs of steps, from 2 and from 10 layers.
std::vector<double> measured_layer_seconds(const std::string& model, const Settings& settings) {
  Point point = point_of(model, "");
  point.policy = "query_proj=device,key_proj=device,value_proj=device";
  const auto steps = [&](int64_t layers) {
    point.layers = layers;
    std::vector<double> seconds;
    for (const Trace& trace : run_cpu(prepare(point, settings), settings.memory, 6, 1).traces)
      seconds.push_back(trace.seconds);
    return seconds;
  };
  const std::vector<double> few = steps(2), many = steps(10);
  std::vector<double> layer;
  for (size_t i = 0; i < few.size(); ++i)
    layer.push_back((many[i] - *std::min_element(few.begin(), few.end())) / 8);
  return layer;
}

// link = proxy bytes / (ratio x proxy layer time), ratio = bytes / rate / layer time; times are
// measured, so the answer is known to their spread, and three times that either way.
TEST(LinkTest, MatchesTheRatioOfTheFullSizePoint) {
  if (!timed_tests()) GTEST_SKIP() << "depends on timing: scripts/acceptance.sh 2 --only link";
  const ScratchDir scratch;
  const std::string model = scratch.file("proxy.json", proxy);
  const Settings settings = shared_arenas();
  // q, k and v of a layer in bf16: 2 x 8192 tokens x (128 + 8 + 8) heads of 128; of the proxy 256
  // tokens x (8 + 2 + 2) heads of 32. Link of one GPU: 201 and 193 GB/s.
  const double full_bytes = 2.0 * 8192 * 144 * 128 * 2, proxy_bytes = 256.0 * 12 * 32 * 2;
  const double ratio = full_bytes / ((201e9 + 193e9) / 2) / simulated_layer_seconds();
  std::vector<double> layer = measured_layer_seconds(model, settings);
  const double link = resolve_link(point_of(model, "match:gb200-nvl72"), settings);
  const double slow = resolve_link(point_of(model, "match:gb200-nvl72/1000"), settings);
  for (const double seconds : measured_layer_seconds(model, settings))
    layer.push_back(seconds);
  const auto [least, most] = std::minmax_element(layer.begin(), layer.end());
  const double lowest = proxy_bytes / (ratio * *most) / 3,
               highest = proxy_bytes / (ratio * *least) * 3;
  ASSERT_GT(*least, 0);
  EXPECT_GT(link, lowest);
  EXPECT_LT(link, highest);
  EXPECT_GT(slow * 1000, lowest);
  EXPECT_LT(slow * 1000, highest);
}

TEST(LinkTest, TakesARateAsItIs) {
  EXPECT_EQ(resolve_link(point_of("llama-tiny", "1.5"), {}), 1.5e9);
}

TEST(LinkTest, RefusesAModelThatStandsForNoOther) {
  EXPECT_THAT(
      refusal([] { resolve_link(point_of("llama-tiny", "match:gb200-nvl72"), shared_arenas()); }),
      AllOf(HasSubstr("match:gb200-nvl72"), HasSubstr("llama-tiny"), HasSubstr("proxy_of")));
}

TEST(LinkTest, RefusesAnUnknownMachine) {
  const ScratchDir scratch;
  const std::string model = scratch.file("proxy.json", proxy);
  EXPECT_THAT(refusal([&] { resolve_link(point_of(model, "match:nowhere"), shared_arenas()); }),
              HasSubstr("nowhere"));
}

}  // namespace
}  // namespace spillway
