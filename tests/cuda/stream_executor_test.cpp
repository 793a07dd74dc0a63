// The CUDA executor on a device made of the CPU: that it issues what the schedule says and nothing
// else, and that values survive the worst order of streams that its events allow.
#include "harness/cuda/stream_executor.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "harness/race.h"
#include "harness/workspaces.h"
#include "tests/cuda/support_fake_gpu.h"
#include "tests/harness/support_cpu.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// An executor of a schedule on a fake device.
struct FakeRun {
  FakeRun(const Schedule& schedule, const Plan& plan, const Haste& haste,
          const CudaOptions& options = {}) {
    auto made = std::make_unique<FakeGpu>(haste);
    gpu = made.get();
    memory = std::make_shared<CudaMemory>(std::move(made));
    executor = make_stream_executor(schedule, plan, options, memory, fake_kernel);
  }
  // What one more step issues; events are numbered as they appear.
  std::vector<std::string> log_of_step() {
    gpu->log.clear();
    executor->step();
    std::map<std::string, std::string> numbers;
    for (std::string& line : gpu->log) {
      const size_t event = line.find(" e");
      if (event == std::string::npos) continue;
      std::string& number = numbers[line.substr(event)];
      if (number.empty()) number = text(" e", numbers.size());
      line = line.substr(0, event) + number;
    }
    return gpu->log;
  }

  FakeGpu* gpu;
  std::shared_ptr<CudaMemory> memory;
  std::unique_ptr<CudaExecutor> executor;
};

CudaOptions one_thread_and(bool CudaOptions::*option) {
  CudaOptions options{.threads = 1};
  options.*option = true;
  return options;
}

int64_t count(const std::vector<std::string>& log, const std::string& part) {
  return std::count_if(log.begin(), log.end(), [&](const std::string& line) {
    return line.find(part) != std::string::npos;
  });
}

// Waits of one training step as the schedule states them.
int64_t waits_of(const Schedule& schedule) {
  int64_t waits = 0;
  for (size_t s = 0; s < schedule.segments.size(); ++s)
    for (const auto& steps : schedule.segments[s].lanes)
      for (const LaneStep& step : steps)
        waits += schedule.program.segments[s].trips * static_cast<int64_t>(step.waits.size());
  return waits;
}

TEST(StreamExecutor, IssuesABodyExactlyAsScheduled) {
  const OffloadStack stack(1, 16);
  const Plan plan = plan_apart(stack.schedule.program);
  FakeRun run(stack.schedule, plan, compute_first, {.threads = 1});
  // s0 compute, s1 to host, s2 from host. Forward: the copy starts, the layer runs beside it, done.
  // Backward: the reload starts and is waited for.
  EXPECT_THAT(run.log_of_step(),
              ElementsAre("s0 run double",  //
                          "s0 record e1", "s1 wait e1", "s1 run offload", "s1 record e2",
                          "s0 run layer", "s0 wait e2",  //
                          "s0 run turn", "s0 run loss",  //
                          "s0 record e3", "s2 wait e3", "s2 run reload", "s2 record e4",
                          "s0 wait e4", "s0 run accumulate", "s0 run gradient"));
}

TEST(StreamExecutor, EveryWaitOfEveryIterationIsOneEventWait) {
  const OffloadStack stack(5, 16);
  const Plan plan = plan_apart(stack.schedule.program);
  FakeRun run(stack.schedule, plan, any_haste, {.threads = 1});
  const std::vector<std::string> log = run.log_of_step();
  EXPECT_EQ(waits_of(stack.schedule), 5 * 2 + 5 * 2);
  EXPECT_EQ(count(log, " wait "), waits_of(stack.schedule));
  EXPECT_EQ(count(log, " run "), 1 + 5 * 2 + 2 + 5 * 3);
  EXPECT_EQ(run.log_of_step(), log);
}

TEST(StreamExecutor, ValuesAreThoseOfTheSequentialProgramInEveryOrderOfStreams) {
  const OffloadStack stack(6, 3000);
  for (const Plan& plan : {plan_apart(stack.schedule.program), plan_memory(stack.schedule)}) {
    for (const Haste& haste : every_haste) {
      for (const auto option : {&CudaOptions::timestamps, &CudaOptions::graphs,
                                &CudaOptions::poison, &CudaOptions::flush_l2}) {
        FakeRun run(stack.schedule, plan, haste, one_thread_and(option));
        for (int step = 0; step < 3; ++step) {
          const Trace trace = run.executor->step();
          EXPECT_EQ(trace.loss, 2);
          EXPECT_EQ(trace.bytes_moved[index_of(Lane::d2h)], 6 * 3000 * 4);
          EXPECT_EQ(trace.bytes_moved[index_of(Lane::h2d)], 6 * 3000 * 4);
        }
        EXPECT_EQ(read_floats(*run.executor, stack.gradient),
                  stack.expected_gradient(*run.executor));
        EXPECT_EQ(run.executor->stale_slots(), 0);
      }
    }
  }
}

TEST(StreamExecutor, ValuesAndDigestAreThoseOfTheCpuExecutor) {
  // More than one part of what passes through the host at a time.
  const OffloadStack stack(1, CudaMemory::staging_bytes / 4 + 12345);
  const Plan plan = plan_memory(stack.schedule);
  CpuExecutor cpu(stack.schedule, plan, {.threads = 1, .seed = 11});
  FakeRun run(stack.schedule, plan, any_haste, {.threads = 1, .seed = 11});
  cpu.step();
  run.executor->step();
  EXPECT_EQ(run.executor->gradient_digest(), cpu.gradient_digest());
  EXPECT_EQ(run.executor->read(stack.weight), cpu.read(stack.weight));
  std::vector<std::byte> changed = cpu.read(stack.x);
  std::reverse(changed.begin(), changed.end());
  run.executor->write(stack.x, changed);
  EXPECT_EQ(run.executor->read(stack.x), changed);
}

TEST(StreamExecutor, MakesNothingInAStep) {
  const OffloadStack stack(4, 64);
  const Plan plan = plan_memory(stack.schedule);
  for (const bool graphs : {false, true}) {
    FakeRun run(stack.schedule, plan, compute_first, {.threads = 1, .graphs = graphs});
    run.executor->step();  // graphs are made at its end
    const int64_t made = run.gpu->made;
    run.executor->step();
    run.executor->step();
    EXPECT_EQ(run.gpu->made, made);
  }
}

TEST(StreamExecutor, GivesBackAllThatItMade) {
  const OffloadStack stack(4, 64);
  const Plan plan = plan_memory(stack.schedule);
  FakeRun run(stack.schedule, plan, compute_first, {.threads = 1, .graphs = true});
  const int64_t with_executor = run.gpu->alive;
  run.executor.reset();
  const int64_t memory_alone = run.gpu->alive;
  EXPECT_LT(memory_alone, with_executor);
  run.executor = make_stream_executor(stack.schedule, plan, {.threads = 1, .graphs = true},
                                      run.memory, fake_kernel);
  run.executor->step();
  run.executor.reset();
  EXPECT_EQ(run.gpu->alive, memory_alone);
}

TEST(StreamExecutorGraph, OneLaunchASegmentFromTheSecondStepOn) {
  const OffloadStack stack(5, 16);
  const Plan plan = plan_memory(stack.schedule);
  FakeRun run(stack.schedule, plan, copies_first, {.threads = 1, .graphs = true});
  const std::vector<std::string> first = run.log_of_step();
  // A step without graphs, then each body captured once more, with all its iterations.
  EXPECT_EQ(count(first, " run "), 2 * (1 + 5 * 2 + 2 + 5 * 3));
  EXPECT_EQ(count(first, " launch "), 0);
  EXPECT_THAT(run.log_of_step(),
              ElementsAre("s0 launch g0", "s0 launch g1", "s0 launch g2", "s0 launch g3"));
}

TEST(StreamExecutorTrace, HasASpanForEveryOpOnItsLane) {
  const OffloadStack stack(4, 16);
  const Plan plan = plan_memory(stack.schedule);
  for (const bool graphs : {false, true}) {
    FakeRun run(stack.schedule, plan, compute_first, {.threads = 1, .graphs = graphs});
    run.executor->step();
    const Trace trace = run.executor->step();
    std::map<std::pair<Lane, int>, int64_t> ops;
    for (const Span& span : trace.spans) {
      EXPECT_LT(span.begin, span.end);
      EXPECT_LE(span.end, trace.seconds);
      if (span.kind == SpanKind::op) ++ops[{span.lane, span.segment}];
    }
    const std::map<std::pair<Lane, int>, int64_t> expected = {
        {{Lane::compute, 0}, 1}, {{Lane::compute, 1}, 4}, {{Lane::compute, 2}, 2},
        {{Lane::compute, 3}, 8}, {{Lane::d2h, 1}, 4},     {{Lane::h2d, 3}, 4}};
    EXPECT_EQ(ops, expected);
  }
}

TEST(StreamExecutorTrace, AWaitLastsFromTheLanesLastOpToTheAwaitedOnesEnd) {
  const OffloadStack stack(3, 16);
  const Plan plan = plan_memory(stack.schedule);
  FakeRun run(stack.schedule, plan, compute_first, {.threads = 1});
  const Trace trace = run.executor->step();
  int64_t reloads = 0;
  for (size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& wait = trace.spans[i];
    if (wait.kind != SpanKind::wait || wait.lane != Lane::compute || wait.on != Lane::h2d) continue;
    ++reloads;
    const auto reload = std::find_if(trace.spans.begin(), trace.spans.end(), [&](const Span& span) {
      return span.kind == SpanKind::op && span.lane == Lane::h2d &&
             span.iteration == wait.iteration;
    });
    ASSERT_NE(reload, trace.spans.end());
    EXPECT_EQ(wait.end, reload->end);
    EXPECT_EQ(wait.op, reload->op);
    EXPECT_LE(wait.begin, reload->begin);
  }
  EXPECT_EQ(reloads, 3);  // it has nothing to hide behind
}

TEST(StreamExecutorTrace, WithoutTimestampsOnlyTheWholeStepIsTimed) {
  const OffloadStack stack(3, 16);
  const Plan plan = plan_memory(stack.schedule);
  FakeRun run(stack.schedule, plan, copies_first, {.threads = 1, .timestamps = false});
  const Trace trace = run.executor->step();
  EXPECT_TRUE(trace.spans.empty());
  EXPECT_NEAR(trace.seconds / 1e-5, 1 + 3 * 2 + 2 + 3 * 3 + 1, 1e-6);  // one tick an op; the loss
}

// ---- schedules that lack a wait

struct LackingWait {
  const char* what;
  size_t segment;
  Lane lane;
  size_t step;
};

class StreamExecutorWithoutWait : public testing::TestWithParam<LackingWait> {};

TEST_P(StreamExecutorWithoutWait, ShowsInSomeOrderOfStreams) {
  OffloadStack stack(4, 16);
  const auto [what, segment, lane, step] = GetParam();
  auto& waits = stack.schedule.segments[segment].lanes[index_of(lane)][step].waits;
  ASSERT_EQ(waits.size(), 1U);
  waits.clear();
  const Plan plan = plan_memory(stack.schedule);
  bool shows = false;
  for (const Haste& haste : every_haste) {
    FakeRun run(stack.schedule, plan, haste, {.threads = 1, .poison = true});
    std::string redzone;
    try {
      run.executor->step();
      run.executor->step();
    } catch (const RunError& error) {
      redzone = error.what();
    }
    const std::vector<float> found = read_floats(*run.executor, stack.gradient);
    shows = shows || !redzone.empty() || run.executor->stale_slots() > 0 ||
            found != stack.expected_gradient(*run.executor);
  }
  EXPECT_TRUE(shows) << what;
}

INSTANTIATE_TEST_SUITE_P(
    All, StreamExecutorWithoutWait,
    testing::Values(LackingWait{"copy to host for its start", 1, Lane::d2h, 0},
                    LackingWait{"compute for the copy to host", 1, Lane::compute, 2},
                    LackingWait{"copy from host for its start", 3, Lane::h2d, 0},
                    LackingWait{"compute for the copy from host", 3, Lane::compute, 1}),
    [](const auto& test) { return "Wait" + std::to_string(test.index); });

// ---- failures

TEST(StreamExecutorFailure, SaysWhereAndLeavesTheDeviceToTheNext) {
  const OffloadStack stack(4, 16);
  const Plan plan = plan_memory(stack.schedule);
  for (const bool graphs : {false, true}) {
    FakeRun run(stack.schedule, plan, compute_first, {.threads = 1, .graphs = graphs});
    run.gpu->fail_on = "accumulate";
    try {
      run.executor->step();
      FAIL() << "no failure";
    } catch (const RunError& error) {
      EXPECT_STREQ(error.what(),
                   "step 0, segment backward, iteration 0, op accumulate: launching the kernel: "
                   "cudaErrorInvalidConfiguration (invalid configuration argument)");
    }
    EXPECT_THROW(run.executor->step(), RunError);
    run.gpu->fail_on.clear();
    run.executor = make_stream_executor(stack.schedule, plan, {.threads = 1, .graphs = graphs},
                                        run.memory, fake_kernel);
    run.executor->step();
    run.executor->step();
    EXPECT_EQ(read_floats(*run.executor, stack.gradient), stack.expected_gradient(*run.executor));
  }
}

TEST(StreamExecutorFailure, OnTheDeviceComesToLightAtTheEndOfTheStep) {
  const OffloadStack stack(4, 16);
  const Plan plan = plan_memory(stack.schedule);
  FakeRun run(stack.schedule, plan, compute_first, {.threads = 1});
  run.gpu->fail_later_on = "accumulate";
  try {
    run.executor->step();
    FAIL() << "no failure";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("step 0, lane compute: cudaStreamSynchronize: "
                                                  "cudaErrorMisalignedAddress"));
  }
  EXPECT_THROW(run.executor->step(), RunError);
}

TEST(StreamExecutorFailure, InACaptureToo) {
  const OffloadStack stack(4, 16);
  const Plan plan = plan_memory(stack.schedule);
  FakeRun run(stack.schedule, plan, compute_first, {.threads = 1, .graphs = true});
  run.gpu->fail_capture = true;
  EXPECT_THROW(run.executor->step(), RunError);
  run.gpu->fail_capture = false;
  run.executor =
      make_stream_executor(stack.schedule, plan, {.threads = 1}, run.memory, fake_kernel);
  run.executor->step();
  EXPECT_EQ(read_floats(*run.executor, stack.gradient), stack.expected_gradient(*run.executor));
}

TEST(StreamExecutorRedzone, AByteOutsideLiveTensorsIsFound) {
  const OffloadStack stack(2, 16);
  const Plan plan = plan_memory(stack.schedule);
  FakeRun run(stack.schedule, plan, compute_first, {.threads = 1, .poison = true});
  run.executor->step();
  run.memory->device()[plan.device_bytes + 3] = std::byte{1};
  try {
    run.executor->step();
    FAIL() << "not found";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr(text("byte ", plan.device_bytes + 3, " of the device")));
  }
}

TEST(StreamExecutor, TheFlushBufferIsCountedByItself) {
  const OffloadStack stack(2, 16);
  const Plan plan = plan_memory(stack.schedule);
  FakeRun plain(stack.schedule, plan, compute_first, {.threads = 1});
  FakeRun flushed(stack.schedule, plan, compute_first, {.threads = 1, .flush_l2 = true});
  EXPECT_EQ(plain.executor->use().arena, plan.device_bytes);
  EXPECT_EQ(plain.executor->use().l2_flush, 0);
  EXPECT_EQ(flushed.executor->use().l2_flush, 2 << 20);  // twice the fake's L2 cache
}

TEST(StreamExecutor, RefusesSlowCopiesThatAreFaster) {
  const OffloadStack stack(2, 16);
  const Plan plan = plan_memory(stack.schedule);
  EXPECT_THROW(FakeRun(stack.schedule, plan, compute_first, {.slow_copy = 0.5}), InputError);
}

}  // namespace
}  // namespace spillway
