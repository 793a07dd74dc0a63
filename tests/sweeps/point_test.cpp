// Points: every option is read, printed, and part of the key; bad values name option and place.
#include "sweeps/point.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "harness/error.h"
#include "sweeps/sweep_file.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// A value of each field that is not its default.
const std::map<std::string, json>& not_defaults() {
  static const std::map<std::string, json> values = {
      {"model", "llama3.1-8b"},
      {"executor", "cuda"},
      {"machine", "cpu-2core"},
      {"devices", 128},
      {"micro_batch", 2},
      {"seq", 8192},
      {"layers", 3},
      {"policy", "query_proj=offload,mlpwo=device"},
      {"lhs", "off"},
      {"pipeline", "on"},
      {"pipeline_collectives", true},
      {"rotation_copies", "on"},
      {"fp32_logits", "on"},
      {"pipeline_depth", 3},
      {"unroll", 2},
      {"resident_tail", 4},
      {"combine_collectives", "2GiB"},
      {"lhs_off_collectives", "adjacent"},
      {"lhs_rule", "kLessStall=off,lane_depth=off"},
      {"lhs_limit", "collectives=2,copies=3"},
      {"memory_slop", 99},
      {"streams", "xla"},
      {"latency_model", "xla"},
      {"profile", "result.json"},
      {"precision", "nvfp4"},
      {"projection_precision", "fp8"},
      {"state_bytes", "2,4,2,4"},
      {"moe", "capacity"},
      {"capacity_factor", 1.25},
      {"routing", "zipf:1.2"},
      {"expert_parallel", 8},
      {"ragged_buffer_factor", 1.5},
      {"steps", 20},
      {"warmup", 0},
      {"hbm", "6GiB"},
      {"host", 1000},
      {"link", "match:gb200-nvl72/8"},
      {"slow_copy", 2.5},
      {"poison", true},
      {"cuda_graph", "on"},
      {"attention", "plain"},
      {"timestamps", "off"},
      {"l2_flush", true},
      {"matmul", "plain"},
      {"algorithms", "algorithms.json"},
      {"seed", 7},
      {"every_iteration", "on"},
      {"ranks", 8},
      {"rank_jitter", 0.01},
      {"op_jitter", 0.02},
      {"straggler", 1.5},
  };
  return values;
}

std::string key_of_field(const Field& field) {
  std::string key = field.name;
  for (char& letter : key)
    if (letter == '-') letter = '_';
  return key;
}

std::string key(const Point& point) { return key_of(SweepPoint{"label", point, "", "sweep"}); }

Point tiny() {
  Point point;
  point.model = "llama-tiny";
  return point;
}

TEST(Point, EveryFieldHasAValueInThisTest) {
  std::set<std::string> in_table, here;
  for (const Field& field : fields())
    in_table.insert(key_of_field(field));
  for (const auto& [name, value] : not_defaults())
    here.insert(name);
  EXPECT_EQ(in_table, here);
}

TEST(Point, EveryFieldIsReadPrintedAndPartOfTheKey) {
  std::set<std::string> keys = {key(tiny())};
  for (const auto& [name, value] : not_defaults()) {
    SCOPED_TRACE(name);
    Point point = tiny();
    set_field(point, name, value, "test");
    EXPECT_TRUE(keys.insert(key(point)).second) << "same key as another point";
    const json printed = to_json(point);
    ASSERT_TRUE(printed.contains(name));
    Point again;
    for (const auto& [field, text] : printed.items())
      set_field(again, field, text, "test");
    EXPECT_EQ(to_json(again), printed);
    EXPECT_EQ(key(again), key(point));
  }
}

TEST(Point, ValuesArriveInTheirUnits) {
  Point point;
  for (const auto& [name, value] : not_defaults())
    set_field(point, name, value, "test");
  EXPECT_EQ(point.executor, ExecutorKind::cuda);
  EXPECT_EQ(point.devices, 128);
  EXPECT_EQ(point.micro_batch, 2);
  EXPECT_EQ(point.seq, 8192);
  EXPECT_FALSE(point.lhs);
  EXPECT_TRUE(point.pipeline && point.pipeline_collectives && point.rotation_copies &&
              point.poison);
  EXPECT_EQ(point.precision, Precision::nvfp4);
  EXPECT_EQ(point.projection_precision, Precision::fp8);
  EXPECT_EQ(point.state_bytes, (StateBytes{2, 4, 2, 4}));
  EXPECT_EQ(point.moe, (MoeOptions{true, 1.25, {RoutingChoice::Kind::zipf, 1.2}, 8, 1.5}));
  EXPECT_EQ(point.hbm_bytes, 6442450944);
  EXPECT_EQ(point.host_bytes, 1000);
  EXPECT_EQ(point.lhs_rules, (LhsRules{{"kLessStall", false}, {"lane_depth", false}}));
  EXPECT_EQ(point.lhs_limits, (LhsLimits{2, 3}));
  EXPECT_EQ(point.slow_copy, 2.5);
  EXPECT_EQ(point.seed, 7U);
}

TEST(Point, DefaultsAreThoseOfTheCommandLine) {
  const Point point;
  EXPECT_EQ(point.policy, "full");
  EXPECT_TRUE(point.lhs);
  EXPECT_FALSE(point.pipeline || point.pipeline_collectives || point.rotation_copies);
  EXPECT_EQ(point.precision, Precision::bf16);
  EXPECT_EQ(point.state_bytes, (StateBytes{4, 4, 4, 4}));
  for (const char* key : {"moe", "capacity_factor", "routing", "expert_parallel", "lhs_rule",
                          "lhs_limit", "memory_slop", "streams"})
    EXPECT_FALSE(to_json(point).contains(key)) << "said where it differs only";
  EXPECT_FALSE(point.moe.capacity_path);
  EXPECT_EQ(point.moe.capacity_factor, 1);
  EXPECT_EQ(point.moe.routing.kind, RoutingChoice::Kind::model);
  EXPECT_EQ(point.moe.expert_parallel, 1);
  EXPECT_EQ(point.steps, 10);
  EXPECT_EQ(point.warmup, 3);
  EXPECT_EQ(point.devices, 1);
}

struct BadValue {
  const char* field;
  json value;
  const char* expected;  // what the message must say
};

const std::vector<BadValue>& bad_values() {
  static const std::vector<BadValue> table = {
      {"executor", "gpu", "cpu, sim or cuda"},
      {"devices", 0, "at least 1"},
      {"devices", -1, "at least 1"},
      {"micro_batch", 1.5, "at least 1"},
      {"micro_batch", "2x", "at least 1"},
      {"seq", -4096, "at least 1"},
      {"seq", nullptr, "a text, a number or true/false"},
      {"layers", 0, "at least 1"},
      {"layers", 100001, "at most 100000"},
      {"devices", 1000001, "at most 1000000"},
      {"layers", json::array({1}), "a text, a number or true/false"},
      {"policy", "fulll", "qkv_proj_offloaded"},
      {"policy", "query_proj=disk", "device, offload or remat"},
      {"policy", "", "preset"},
      {"lhs", "maybe", "on or off"},
      {"lhs", 1, "on or off"},
      {"pipeline", "yes", "on or off"},
      {"pipeline_collectives", "1", "on or off"},
      {"rotation_copies", "", "on or off"},
      {"pipeline_depth", 0, "at least 1"},
      {"pipeline_depth", 17, "1 to 16"},
      {"unroll", 3, "1 or 2"},
      {"resident_tail", -1, "at least 0"},
      {"lhs_off_collectives", "late", "post or adjacent"},
      {"lhs_rule", "", "name=value"},
      {"lhs_rule", "kHurry=off", "kScheduleDone"},
      {"lhs_rule", "kLessStall", "name=value"},
      {"lhs_rule", "kLessStall=no", "on or off"},
      {"lhs_rule", "kLessStall=off,kLessStall=off", "expected it once"},
      {"lhs_limit", "collectives", "name=value"},
      {"lhs_limit", "sends=1", "collectives or copies"},
      {"lhs_limit", "copies=0", "a whole number from 1 or unlimited"},
      {"lhs_limit", "copies=2.5", "a whole number from 1 or unlimited"},
      {"memory_slop", -5, "greater than 0"},
      {"streams", "4", "position, precise or xla"},
      {"latency_model", "constant", "xla, size or measured"},
      {"precision", "fp16", "fp32, bf16, fp8 or nvfp4"},
      {"projection_precision", "int8", "fp8"},
      {"state_bytes", "4,4,4", "four numbers"},
      {"state_bytes", "4,4,4,4,4", "four numbers"},
      {"state_bytes", "4,4,4,4,", "four numbers"},
      {"state_bytes", "4,4,4,8", "each 2 or 4"},
      {"state_bytes", "4, 4,4,4", "four numbers"},
      {"state_bytes", "", "four numbers"},
      {"moe", "sparse", "dropless or capacity"},
      {"capacity_factor", 0, "greater than 0"},
      {"capacity_factor", "1.25x", "greater than 0"},
      {"routing", "zipf", "zipf:S"},
      {"routing", "zipf:", "zipf:S"},
      {"routing", "zipf:-1", "zipf:S"},
      {"routing", "random", "uniform"},
      {"expert_parallel", 0, "at least 1"},
      {"ragged_buffer_factor", "inf", "greater than 0"},
      {"steps", 0, "at least 1"},
      {"warmup", -1, "at least 0"},
      {"hbm", "8GB", "GiB"},
      {"hbm", 0, "positive"},
      {"host", "-1GiB", "positive"},
      {"link", "fast", "match:MACHINE[/K]"},
      {"link", 0, "greater than 0"},
      {"link", "match:", "match:MACHINE"},
      {"slow_copy", 0, "a number of at least 1"},
      {"slow_copy", 0.5, "a number of at least 1"},
      {"slow_copy", "inf", "a number of at least 1"},
      {"poison", "nan", "on or off"},
      {"ranks", 1025, "at most 1024"},
      {"rank_jitter", 1.5, "from 0 to 1"},
      {"op_jitter", -0.1, "from 0 to 1"},
      {"straggler", 0.9, "at least 1"},
      {"seed", -1, "at least 0"},
      {"seed", "0x10", "at least 0"},
  };
  return table;
}

TEST(Point, BadValuesNamePlaceKeyFoundAndExpected) {
  for (const BadValue& bad : bad_values()) {
    SCOPED_TRACE(std::string(bad.field) + " = " + bad.value.dump());
    Point point = tiny();
    try {
      set_field(point, bad.field, bad.value, "sweep.json: points");
      ADD_FAILURE() << "accepted";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("sweep.json: points"));
      EXPECT_THAT(error.what(), HasSubstr(bad.field));
      EXPECT_THAT(error.what(), HasSubstr(bad.expected));
      const bool quoted = bad.value.is_string();
      const std::string found = quoted ? bad.value.get<std::string>() : bad.value.dump();
      if (!bad.value.is_structured() && !bad.value.is_null()) {
        EXPECT_THAT(error.what(), HasSubstr(found));
      }
    }
  }
}

TEST(Point, TheDivisorOfAMatchedLinkIsPositive) {
  Point point = tiny();
  for (const char* link : {"match:gb200-nvl72/0", "match:gb200-nvl72/1.2.3"}) {
    EXPECT_THROW(set_field(point, "link", link, "test"), InputError) << link;
  }
}

TEST(Point, AnUnknownFieldListsTheKnownOnes) {
  Point point;
  try {
    set_field(point, "micro-batch", 2, "sweep.json");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sweep.json: micro-batch"));
    EXPECT_THAT(error.what(), HasSubstr("micro_batch"));
  }
}

TEST(Point, WarmupMustBeLessThanSteps) {
  EXPECT_NO_THROW(point_from_json({{"model", "llama-tiny"}, {"steps", 3}, {"warmup", 2}}, "test"));
  for (const int warmup : {3, 4}) {
    try {
      point_from_json({{"model", "llama-tiny"}, {"steps", 3}, {"warmup", warmup}}, "test");
      ADD_FAILURE() << "accepted " << warmup;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("--warmup"));
      EXPECT_THAT(error.what(), HasSubstr(std::to_string(warmup)));
      EXPECT_THAT(error.what(), HasSubstr("--steps 3"));
    }
  }
  EXPECT_THROW(point_from_json({{"steps", 3}}, "test"), InputError) << "no model";
}

TEST(Point, RotationCopiesCarryOneSet) {
  json options = {{"model", "llama-tiny"}, {"pipeline", "on"}, {"pipeline_depth", 2}};
  EXPECT_NO_THROW(point_from_json(options, "test"));
  options["rotation_copies"] = "on";
  try {
    point_from_json(options, "test");
    ADD_FAILURE() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--pipeline-depth: found 2"));
    EXPECT_THAT(error.what(), HasSubstr("--rotation-copies off"));
  }
  options["pipeline"] = "off";  // nothing is rotated
  EXPECT_NO_THROW(point_from_json(options, "test"));
}

TEST(Point, OptionsOfExpertsFitEachOther) {
  const auto given = [](json options) {
    options["model"] = "llama-tiny";
    return point_from_json(options, "test");
  };
  EXPECT_NO_THROW(given({{"moe", "capacity"}, {"capacity_factor", 1.25}}));
  EXPECT_NO_THROW(given({{"devices", 12}, {"expert_parallel", 4}}));
  try {
    given({{"capacity_factor", 1.25}});
    ADD_FAILURE() << "accepted without --moe capacity";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--capacity-factor: found 1.25"));
    EXPECT_THAT(error.what(), HasSubstr("--moe capacity"));
  }
  try {
    given({{"devices", 12}, {"expert_parallel", 8}});
    ADD_FAILURE() << "accepted 8 of 12";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--expert-parallel: found 8"));
    EXPECT_THAT(error.what(), HasSubstr("--devices 12"));
  }
}

}  // namespace
}  // namespace spillway
