// A whole step out of a few layers: beside the simulation of all layers, beside arithmetic by hand,
// and what cannot be projected.
#include "sweeps/projection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "tests/sweeps/support_runs.h"

namespace spillway {
namespace {

using testing::HasSubstr;

Point large_point(const std::string& model, int64_t devices, const std::string& policy) {
  Point point;
  point.model = model;
  point.executor = ExecutorKind::sim;
  point.devices = devices;
  point.seq = 8192;
  point.policy = policy;
  // Capacity is not the question here.
  point.hbm_bytes = point.host_bytes = int64_t{1} << 50;
  return point;
}

void expect_projection_within(Point point, int64_t layers, double tolerance) {
  const double whole = run_point(point, {})["step_seconds"]["median"];
  point.layers = layers;
  const nlohmann::json result = run_point(point, {});
  ASSERT_TRUE(result["projected"]["step_seconds"].is_number()) << result["projected"];
  EXPECT_NEAR(result["projected"]["step_seconds"].get<double>() / whole, 1, tolerance)
      << point.model << ", " << layers << " layers, " << point.policy
      << (point.pipeline ? ", pipelined" : "") << ": " << result["projected"]["segments"];
  EXPECT_EQ(result["projected"]["kind"], "projected");
}

TEST(Projection, OfSimulatedLayersIsTheWholeSimulation) {
  for (const bool lhs : {false, true})
    for (const bool pipelined : {false, true}) {
      for (const char* policy : {"full", "qkv_proj_offloaded"}) {
        Point point = large_point("llama3.1-405b", 128, policy);
        point.lhs = lhs;
        point.pipeline = point.pipeline_collectives = pipelined;
        expect_projection_within(point, 8, 0.01);
      }
      Point point = large_point("deepseek-v3", 256, "deepseek_v3_offload");
      point.seq = 4096;
      point.lhs = lhs;
      point.pipeline = pipelined;
      expect_projection_within(point, 9, 0.01);
    }
}

TEST(Projection, OfHalfATinyModel) {
  Point point = tiny_point({"full"}, 2, 64);
  point.executor = ExecutorKind::sim;
  expect_projection_within(point, 2, 0.01);
  point.policy = "decoder_layer_input=offload";
  expect_projection_within(point, 2, 0.01);
  point.pipeline = true;
  expect_projection_within(point, 3,
                           0.05);  // one layer of each loop is peeled: a tiny step's launches count
}

// Every op takes three times as long as its machine says and nothing waits: the whole step is the sum
// over the whole program.
double seconds_of_op(const Prepared& prepared, const Op& op) {
  return 3 * op_seconds(prepared.schedule.program, op, prepared.machine, prepared.sim);
}

template <class Visit>
void for_each_run(const Program& program, const Visit& visit) {
  for (size_t s = 0; s < program.segments.size(); ++s)
    for (int64_t i = 0; i < program.segments[s].trips; ++i)
      for (size_t op = 0; op < program.segments[s].ops.size(); ++op)
        visit(static_cast<int32_t>(s), i, static_cast<int32_t>(op), program.segments[s].ops[op]);
}

Trace trace_alone(const Prepared& prepared) {
  Trace trace;
  for_each_run(prepared.schedule.program,
               [&](int32_t segment, int64_t iteration, int32_t op, const Op& which) {
                 Span span;
                 span.segment = segment;
                 span.iteration = iteration;
                 span.op = op;
                 span.begin = trace.seconds;
                 trace.seconds += seconds_of_op(prepared, which);
                 span.end = trace.seconds;
                 trace.spans.push_back(span);
               });
  return trace;
}

TEST(Projection, IsExactWhereNothingOverlaps) {
  Point point = tiny_point({"full"}, 1, 32);
  const Prepared whole = prepare(point, {});
  const double expected = trace_alone(whole).seconds;
  for (const int64_t layers : {2, 3}) {
    point.layers = layers;
    const Prepared part = prepare(point, {});
    const Trace trace = trace_alone(part);
    const nlohmann::json projected = projection_of(part, {trace, trace, trace}, {});
    EXPECT_LT(trace.seconds, 0.9 * expected);
    EXPECT_NEAR(projected["step_seconds"].get<double>(), expected, 1e-9 * expected);
    EXPECT_EQ(projected["layers"], 4);
    EXPECT_EQ(projected["of_layers"], layers);
    EXPECT_TRUE(projected["modelled"].is_null());
    for (const nlohmann::json& segment : projected["segments"]) {
      if (segment["segment"] != "layers.forward") continue;
      EXPECT_EQ(segment["iterations"], 4);
      EXPECT_EQ(segment["of_iterations"], layers);
    }
  }
}

TEST(Projection, OfExecutedLayersIsInTheResult) {
  Point point = tiny_point({"full"}, 2, 64);
  point.steps = 3;
  point.warmup = 1;
  EXPECT_FALSE(run_point(point, {}).contains("projected"));
  point.layers = 2;
  const nlohmann::json one = run_point(point, {});
  EXPECT_EQ(one["kind"], "measured");
  EXPECT_GT(one["projected"]["step_seconds"].get<double>(),
            one["step_seconds"]["min"].get<double>());
  EXPECT_GT(one["projected"]["tflops_per_s_per_device"].get<double>(), 0);
  // On several devices the layers are those of one, and collectives are added.
  point.devices = 8;
  const nlohmann::json many = run_point(point, {});
  EXPECT_EQ(many["gradient_digest"], one["gradient_digest"]);
  EXPECT_EQ(many["projected"]["devices"], 8);
  EXPECT_GT(many["projected"]["modelled"]["op_seconds"].get<double>(), 0);
  EXPECT_GT(many["projected"]["modelled"]["collective_seconds"].get<double>(), 0);
  EXPECT_EQ(many["config"]["devices"], "8");
  // Rotated collectives change what is exposed, not what one device runs.
  point.pipeline_collectives = true;
  const nlohmann::json rotated = run_point(point, {});
  EXPECT_TRUE(rotated["projected"]["step_seconds"].is_number()) << rotated["projected"];
  EXPECT_GT(rotated["projected"]["modelled"]["collective_seconds"].get<double>(), 0);
}

TEST(Projection, SaysWhyThereIsNone) {
  Point point = large_point("deepseek-v3", 1, "full");
  point.layers = 3;  // all of them dense
  const nlohmann::json projected = run_point(point, {})["projected"];
  EXPECT_TRUE(projected["step_seconds"].is_null());
  EXPECT_THAT(projected["reason"].get<std::string>(), HasSubstr("expected more --layers"));
  Point tiny = tiny_point({"full"}, 1, 16);
  tiny.layers = 2;
  const Prepared prepared = prepare(tiny, {});
  Trace untimed;
  untimed.seconds = 1;
  EXPECT_EQ(projection_of(prepared, {untimed}, {})["reason"], "ops were not timed");
}

TEST(Projection, WholeModelsOfSeveralDevicesAreNotExecuted) {
  Point point = tiny_point({"full"}, 1, 16);
  point.devices = 2;
  EXPECT_THROW(prepare(point, {}), InputError);
  point.layers = 4;  // all it has
  EXPECT_THROW(prepare(point, {}), InputError);
}

}  // namespace
}  // namespace spillway
