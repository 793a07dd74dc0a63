// A result fed back in as a profile.
#include "sweeps/profile.h"

#include <gmock/gmock.h>

#include "harness/error.h"
#include "harness/measurement.h"
#include "sweeps/run.h"
#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ProfileTest : public testing::Test {
 protected:
  static Point point(const std::string& policy) {
    Point made;
    made.model = "llama3.1-8b";
    made.executor = ExecutorKind::sim;
    made.devices = 8;
    made.layers = 4;
    made.policy = policy;
    return made;
  }
  std::string file_with(const std::string& content) {
    return scratch_.file("profile_test.json", content);
  }
  static std::string refusal(const Point& asked) {
    try {
      run_point(asked, {});
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }

 private:
  ScratchDir scratch_;  // tests run beside each other, each in a process of its own
};

// The seconds of all iterations of all ops fill the lanes of the step that gave them.
TEST_F(ProfileTest, MeanSecondsTimesTripsAreTheLanes) {
  const Prepared prepared = prepare(point("minimal_offloaded"), {});
  const Outcome outcome = run_sim(prepared);
  const auto means = mean_op_seconds(prepared.schedule, outcome.traces);
  for (const Lane lane : {Lane::compute, Lane::d2h, Lane::h2d, Lane::collective}) {
    double sum = 0;
    for (size_t s = 0; s < means.size(); ++s) {
      const Segment& segment = prepared.schedule.program.segments[s];
      for (size_t op = 0; op < means[s].size(); ++op)
        if (lane_of(segment.ops[op]) == lane) sum += means[s][op] * double(segment.trips);
    }
    const double busy = lane_times(outcome.traces.front(), lane).busy;
    EXPECT_GT(busy, 0);
    EXPECT_NEAR(sum, busy, 1e-9 * busy);
  }
}

TEST_F(ProfileTest, OfTheSameProgramIsTakenWithoutAWarning) {
  Point asked = point("minimal_offloaded");
  const json first = run_point(asked, {});
  asked.latency_model = LatencyModel::measured;
  asked.profile = file_with(first.dump());
  const json again = run_point(asked, {});
  EXPECT_EQ(again["status"], "ok");
  EXPECT_EQ(again["warnings"], first["warnings"]);
  EXPECT_EQ(again["op_mean_seconds"].size(), first["op_mean_seconds"].size());
}

TEST_F(ProfileTest, WhatItLacksIsCountedAndWhatIsForeignIsNamed) {
  Point asked = point("minimal_offloaded");
  json result = run_point(asked, {});
  const size_t ops = result["op_mean_seconds"].size();
  result["op_mean_seconds"].erase(result["op_mean_seconds"].begin());
  result["op_mean_seconds"].erase(result["op_mean_seconds"].begin());
  asked.latency_model = LatencyModel::measured;
  asked.profile = file_with(result.dump());
  const json warned = run_point(asked, {});
  EXPECT_THAT(warned["warnings"].dump(),
              HasSubstr("2 of " + std::to_string(ops) + " ops are not in the profile"));
  result["op_mean_seconds"]["layers.forward.nowhere"] = 1;
  asked.profile = file_with(result.dump());
  EXPECT_THAT(refusal(asked), HasSubstr("found 1 ops that this program lacks "
                                        "(layers.forward.nowhere)"));
}

TEST_F(ProfileTest, FilesWithoutOneAreRefused) {
  Point asked = point("full");
  asked.latency_model = LatencyModel::measured;
  for (const char* content :
       {"", "[]", "{}", R"({"op_mean_seconds": null})", R"({"op_mean_seconds": {}})"}) {
    asked.profile = file_with(content);
    EXPECT_THAT(refusal(asked), HasSubstr("op_mean_seconds")) << content;
  }
  asked.profile = file_with(R"({"op_mean_seconds": {"a.b": -1}})");
  EXPECT_THAT(refusal(asked), HasSubstr("a.b: found -1"));
  asked.profile = testing::TempDir() + "nowhere.json";
  EXPECT_THAT(refusal(asked), HasSubstr("cannot be read"));
}

TEST_F(ProfileTest, NeedsTheModelAndTheModelNeedsIt) {
  Point asked = point("full");
  asked.latency_model = LatencyModel::measured;
  EXPECT_THROW(verify_point(asked), InputError);
  asked.latency_model = LatencyModel::size;
  asked.profile = "result.json";
  EXPECT_THROW(verify_point(asked), InputError);
}

}  // namespace
}  // namespace spillway
