// Whole models as the CUDA executor issues them, on a device made of the CPU: loss and gradients are
// the CPU executor's bit for bit under every schedule, stream order and mode, scratch memory
// included.
#include <algorithm>

#include <gtest/gtest.h>

#include "harness/cuda/stream_executor.h"
#include "harness/error.h"
#include "harness/race.h"
#include "harness/workspaces.h"
#include "tests/cuda/support_fake_gpu.h"
#include "tests/gpu/variant.h"
#include "tests/sweeps/support_runs.h"

namespace spillway {
namespace {

constexpr int64_t steps_run = 2;

// The schedule of a point with the scratch memory of the fake's kernels.
struct FakePoint : SubjectPoint {
  explicit FakePoint(const Point& point)
      : SubjectPoint({nullptr, fake_kernel, fake_workspace_bytes}, point) {}

  Shown run_fake(const Schedule& run_schedule, const Haste& haste, CudaOptions options) const {
    const Subject subject{std::make_shared<CudaMemory>(std::make_unique<FakeGpu>(haste)),
                          fake_kernel, fake_workspace_bytes};
    return show(subject, *this, run_schedule, options, steps_run);
  }
};

void expect_same_bits(const Point& point) {
  const Prepared prepared = prepare(point, {});
  CpuExecutor cpu(prepared.schedule, prepared.plan, {.threads = 1});
  const Shown expected = show(cpu, steps_run);
  ASSERT_EQ(expected.losses.size(), static_cast<size_t>(steps_run));
  const FakePoint fake(point);
  EXPECT_GT(fake.plan.device_bytes, prepared.plan.live_peak);
  for (const Haste& haste : {compute_first, copies_first, any_haste}) {
    EXPECT_EQ(fake.run_fake(fake.schedule, haste, {}), expected);
    EXPECT_EQ(fake.run_fake(fake.schedule, haste, {.graphs = true}), expected);
    EXPECT_EQ(fake.run_fake(fake.schedule, haste, {.slow_copy = 2.5, .poison = true}), expected);
  }
}

TEST(CudaModels, LlamaUnderEverySchedule) {
  for (const RunVariant& variant :
       every_schedule({"decoder_layer_input=offload,query_proj=offload,out_proj=device"})) {
    SCOPED_TRACE(label(variant));
    expect_same_bits(tiny_point(variant, 1, 16));
  }
}

TEST(CudaModels, Experts) {
  for (const char* model : {"deepseek-tiny", "mixtral-tiny"}) {
    for (const bool capacity : {false, true}) {
      SCOPED_TRACE(text(model, capacity ? ", by capacity" : ", dropless"));
      Point point = tiny_point({.policy = "decoder_layer_input=offload", .pipeline = true}, 1, 16);
      point.model = model;
      point.moe.capacity_path = capacity;
      expect_same_bits(point);
    }
  }
}

TEST(CudaModels, MasterWeightsOfAnotherWidth) {
  Point point = tiny_point({"full"}, 1, 16);
  point.state_bytes = {4, 2, 4, 2};
  expect_same_bits(point);
  point.state_bytes = {2, 4, 4, 4};
  expect_same_bits(point);
}

// The result of a run whose ops are timed has all that a CPU run's has; one that is not leaves blank
// what nobody measured.
TEST(CudaModels, ResultsHaveWhatWasMeasured) {
  for (const bool timestamps : {false, true}) {
    Prepared prepared = prepare(tiny_point({"decoder_layer_input=offload"}, 1, 16), {});
    auto memory = std::make_shared<CudaMemory>(std::make_unique<FakeGpu>(any_haste));
    const CudaOptions options{.threads = 1, .timestamps = timestamps};
    const auto executor =
        make_stream_executor(prepared.schedule, prepared.plan, options, memory, fake_kernel);
    const Outcome outcome = run_steps(prepared, *executor, {3, 1});
    const nlohmann::json result = result_of(prepared, outcome, {});
    EXPECT_EQ(result["step_seconds"]["n"], 2);
    EXPECT_GT(result["step_seconds"]["median"].get<double>(), 0);
    EXPECT_TRUE(result["gradient_digest"].is_string());
    for (const char* key :
         {"op_seconds", "timeline", "transfers", "exposed_transfer_seconds", "compute_lane"})
      EXPECT_EQ(result[key].is_null(), !timestamps) << key;
    EXPECT_EQ(result["steps"][0]["busy_seconds"].is_null(), !timestamps);
    EXPECT_EQ(result["memory_curve"][0]["seconds"].is_null(), !timestamps);
  }
}

#if SPILLWAY_HAVE_CUDA

// A point of --executor cuda up to its launch: planned for a GPU with the scratch memory that the real
// kernels ask for, proven, run by stand-ins for them, reported.
TEST(CudaModels, APointOnAGpuHasAllButItsKernels) {
  for (const char* model : {"llama-tiny", "deepseek-tiny", "mixtral-tiny"}) {
    SCOPED_TRACE(model);
    Point point = tiny_point({.policy = "decoder_layer_input=offload", .pipeline = true}, 1, 16);
    point.model = model;
    const Prepared on_cpu = prepare(point, {});
    point.executor = ExecutorKind::cuda;
    Settings settings;
    settings.cuda = std::make_shared<CudaMemory>(std::make_unique<FakeGpu>(any_haste));
    const Prepared prepared = prepare(point, settings);
    EXPECT_EQ(prepared.status, Status::ok) << prepared.reason;
    EXPECT_EQ(prepared.capacity.device, int64_t{1} << 40);  // what the fake has free
    EXPECT_GE(prepared.plan.live_peak, on_cpu.plan.live_peak);
    const auto executor = make_stream_executor(prepared.schedule, prepared.plan, {.threads = 1},
                                               settings.cuda, fake_kernel);
    Outcome outcome = run_steps(prepared, *executor, {2, 1});
    outcome.gpu = GpuRun{device_of(*settings.cuda), executor->use()};
    const nlohmann::json result = result_of(prepared, outcome, settings);
    EXPECT_EQ(result["gpu"]["name"], "fake");
    EXPECT_EQ(result["gpu"]["arena_bytes"], prepared.plan.device_bytes);
    EXPECT_EQ(result["kind"], "measured");
    CpuExecutor cpu(on_cpu.schedule, on_cpu.plan, {.threads = 1});
    EXPECT_EQ(run_steps(on_cpu, cpu, {2, 1}).gradient_digest, outcome.gradient_digest);
  }
}

TEST(CudaModels, APointThatDoesNotFitTheGpuIsARow) {
  Point point = tiny_point({"full"}, 1, 16);
  point.executor = ExecutorKind::cuda;
  point.hbm_bytes = 1000;
  Settings settings;
  settings.cuda = std::make_shared<CudaMemory>(std::make_unique<FakeGpu>(any_haste));
  EXPECT_EQ(prepare(point, settings).status, Status::oom);
}

#endif

// Every wait that the proof leaves is needed: without it some order of streams gives other values, a
// slot read too early, or a write into released memory.
TEST(CudaModels, AnySingleWaitLessShows) {
  for (const bool pipeline : {false, true}) {
    const FakePoint fake(tiny_point(
        {.policy = "decoder_layer_input=offload,query_proj=offload", .pipeline = pipeline}, 1, 16));
    const CudaOptions options{.poison = true};
    const Shown expected = fake.run_fake(fake.schedule, compute_first, options);
    const std::vector<WaitPlace> places = places_of_waits(fake.schedule);
    EXPECT_GE(places.size(), 6U);
    for (const WaitPlace& place : places) {
      const Schedule lacking = without(fake.schedule, place);
      EXPECT_TRUE(std::any_of(
          every_haste.begin(), every_haste.end(),
          [&](const Haste& haste) { return fake.run_fake(lacking, haste, options) != expected; }))
          << "segment " << place.segment << ", lane " << place.lane << ", step " << place.step;
    }
  }
}

}  // namespace
}  // namespace spillway
