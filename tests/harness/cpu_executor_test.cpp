// The CPU executor on a hand-built stack: values, counters, waits, poison, capacity, refusals.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "tests/harness/support_cpu.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t layers = 3, stack_elements = 4099;  // odd: tails, alignment gaps

CpuOptions two_threads() {
  CpuOptions options;
  options.threads = 2;
  options.seed = 7;
  return options;
}

CpuOptions slow_and_poisoned() {
  CpuOptions options = two_threads();
  options.slow_copy = 1000;  // 20 ms a copy: far longer than an add
  options.poison = true;
  return options;
}

int64_t count_spans(const Trace& trace, SpanKind kind, Lane lane) {
  return std::count_if(trace.spans.begin(), trace.spans.end(),
                       [&](const Span& span) { return span.kind == kind && span.lane == lane; });
}

TEST(ThreadsCpuExecutor, ValuesAreThoseOfTheSequentialProgram) {
  const OffloadStack stack(layers, stack_elements);
  const Plan plan = plan_apart(stack.schedule.program);
  CpuExecutor executor(stack.schedule, plan, two_threads());
  for (int step = 0; step < 3; ++step) {
    const Trace trace = executor.step();
    EXPECT_EQ(trace.loss, 2.0);
    EXPECT_EQ(read_floats(executor, stack.gradient), stack.expected_gradient(executor));
  }
  EXPECT_EQ(executor.stale_slots(), 0);
}

TEST(ThreadsCpuExecutor, ThePlannersOffsetsGiveTheSameValues) {
  const OffloadStack stack(layers, stack_elements);
  const Plan apart = plan_apart(stack.schedule.program), packed = plan_memory(stack.schedule);
  EXPECT_LT(packed.device_bytes, apart.device_bytes);
  CpuOptions options = two_threads();
  options.poison = true;
  CpuExecutor one(stack.schedule, apart, options), other(stack.schedule, packed, options);
  one.step();
  other.step();
  EXPECT_EQ(read_floats(one, stack.gradient), read_floats(other, stack.gradient));
  EXPECT_EQ(one.gradient_digest(), other.gradient_digest());
}

TEST(ThreadsCpuExecutor, SameBitsForEveryRepeatAndThreadCount) {
  const OffloadStack stack(layers, stack_elements);
  const Plan plan = plan_apart(stack.schedule.program);
  auto memory = std::make_shared<CpuMemory>();
  std::string digest;
  for (const int threads : {1, 2, 3}) {
    CpuOptions options = two_threads();
    options.threads = threads;
    CpuExecutor executor(stack.schedule, plan, options, memory);
    for (int step = 0; step < 5; ++step) {
      executor.step();
      if (digest.empty()) digest = executor.gradient_digest();
      EXPECT_EQ(executor.gradient_digest(), digest);
    }
  }
  CpuOptions other_seed = two_threads();
  other_seed.seed = 8;
  CpuExecutor executor(stack.schedule, plan, other_seed, memory);
  executor.step();
  EXPECT_NE(executor.gradient_digest(), digest);
}

TEST(ThreadsCpuExecutor, TraceCountsOpsAndBytesOfEveryLane) {
  const OffloadStack stack(layers, stack_elements);
  const Plan plan = plan_apart(stack.schedule.program);
  CpuExecutor executor(stack.schedule, plan, two_threads());
  const Trace trace = executor.step();
  const int64_t bytes = layers * stack_elements * 4;
  EXPECT_EQ(trace.bytes_moved[static_cast<int>(Lane::d2h)], bytes);
  EXPECT_EQ(trace.bytes_moved[static_cast<int>(Lane::h2d)], bytes);
  EXPECT_EQ(trace.bytes_moved[static_cast<int>(Lane::compute)], 0);
  EXPECT_EQ(count_spans(trace, SpanKind::op, Lane::compute), 1 + layers + 2 + 2 * layers);
  EXPECT_EQ(count_spans(trace, SpanKind::op, Lane::d2h), layers);
  EXPECT_EQ(count_spans(trace, SpanKind::op, Lane::h2d), layers);
  for (const Span& span : trace.spans) {
    EXPECT_LE(0, span.begin);
    EXPECT_LE(span.begin, span.end);
    EXPECT_LE(span.end, trace.seconds);
  }
}

TEST(ThreadsCpuExecutor, AWaitNamesWhatWasWaitedForAndLastsAsLong) {
  const OffloadStack stack(layers, stack_elements);
  const Plan plan = plan_apart(stack.schedule.program);
  CpuOptions options = two_threads();
  options.link_bytes_per_second = stack_elements * 4 / 5e-3;  // 5 ms a copy
  CpuExecutor executor(stack.schedule, plan, options);
  const Trace trace = executor.step();
  double waited = 0;
  for (const Span& span : trace.spans) {
    if (span.kind != SpanKind::wait || span.lane != Lane::compute) continue;
    EXPECT_EQ(span.op, 0);  // "offload" and "reload" are op 0 of their segments
    EXPECT_EQ(span.on, span.segment == 1 ? Lane::d2h : Lane::h2d);
    waited += span.end - span.begin;
  }
  EXPECT_GE(waited, layers * 5e-3);  // every reload is waited for from its start
  EXPECT_GE(trace.seconds, 2 * layers * 5e-3);
}

TEST(ThreadsCpuExecutor, PacedCopyIsNeverFasterThanItsLink) {
  const OffloadStack stack(1, int64_t{1} << 19);  // 2 MiB a copy
  const Plan plan = plan_apart(stack.schedule.program);
  CpuOptions options = two_threads();
  options.link_bytes_per_second = 1e9;
  CpuExecutor executor(stack.schedule, plan, options);
  const Trace trace = executor.step();
  for (const Span& span : trace.spans) {
    if (span.kind == SpanKind::op && span.lane != Lane::compute) {
      EXPECT_GE(span.end - span.begin, 2 * 1048576 / 1e9);
    }
  }
}

TEST(ThreadsCpuExecutor, SlowCopiesAndPoisonDoNotChangeAnIntactSchedule) {
  const OffloadStack stack(layers, stack_elements);
  const Plan plan = plan_memory(stack.schedule);
  CpuExecutor executor(stack.schedule, plan, slow_and_poisoned());
  for (int step = 0; step < 2; ++step) {
    const Trace trace = executor.step();
    EXPECT_EQ(trace.loss, 2.0);
    EXPECT_GE(trace.seconds, 2 * layers * 20e-3);
    EXPECT_EQ(read_floats(executor, stack.gradient), stack.expected_gradient(executor));
  }
  EXPECT_EQ(executor.stale_slots(), 0);
}

// Not part of the thread sanitizer's run: these schedules race, that is the point.
void drop_waits(Schedule& schedule, int segment, Lane lane) {
  for (LaneStep& step :
       schedule.segments[static_cast<size_t>(segment)].lanes[static_cast<int>(lane)])
    step.waits.clear();
}

TEST(CpuExecutorWithoutWait, OverwritingASourceOfASlowCopyShows) {
  OffloadStack stack(layers, stack_elements);
  drop_waits(stack.schedule, 1, Lane::compute);  // the write-back's done: its ring slot is reused
  const Plan plan = plan_apart(stack.schedule.program);
  CpuExecutor executor(stack.schedule, plan, slow_and_poisoned());
  try {
    executor.step();
  } catch (const RunError&) {  // the late half may also be caught in released host memory
  }
  const bool stale = executor.stale_slots() > 0;
  EXPECT_TRUE(stale || read_floats(executor, stack.gradient) != stack.expected_gradient(executor));
}

TEST(CpuExecutorWithoutWait, ReadingBeforeAReloadIsDoneShows) {
  OffloadStack stack(layers, stack_elements);
  drop_waits(stack.schedule, 3, Lane::compute);
  const Plan plan = plan_apart(stack.schedule.program);
  CpuExecutor executor(stack.schedule, plan, slow_and_poisoned());
  try {
    executor.step();
  } catch (const RunError&) {  // bytes that arrive late may also be caught in released memory
  }
  const auto found = read_floats(executor, stack.gradient);
  EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](float v) { return std::isnan(v); }));
}

TEST(CpuExecutorWithoutWait, ReloadingBeforeTheWriteIsStale) {
  OffloadStack stack(layers, stack_elements);
  drop_waits(stack.schedule, 3, Lane::h2d);  // reloads begin with the step
  const Plan plan = plan_apart(stack.schedule.program);
  CpuOptions options = slow_and_poisoned();
  options.poison = false;
  CpuExecutor executor(stack.schedule, plan, options);
  executor.step();
  const int64_t first = executor.stale_slots();
  EXPECT_GE(first, 1);
  executor.step();  // the slots now hold stamps of the step before
  EXPECT_GT(executor.stale_slots(), first);
}

TEST(CpuExecutorRedzone, AByteBesideATensorIsFound) {
  const OffloadStack stack(layers, stack_elements);
  const Plan plan = plan_apart(stack.schedule.program);
  auto memory = std::make_shared<CpuMemory>();
  CpuOptions options = two_threads();
  options.poison = true;
  CpuExecutor executor(stack.schedule, plan, options, memory);
  executor.step();
  const int64_t end = plan.offset[static_cast<size_t>(stack.weight)] + layers * stack_elements * 4;
  ASSERT_NE(end % arena_alignment, 0);  // so the byte belongs to no tensor
  memory->device()[end] = std::byte{0};
  EXPECT_THAT([&] { executor.step(); }, ThrowsMessage<RunError>(testing::AllOf(
                                            HasSubstr(text("byte ", end)), HasSubstr("weight"))));
}

TEST(CpuExecutorRedzone, AnOpThatWritesAReleasedTensorIsFound) {
  OffloadStack stack(layers, stack_elements);
  auto& steps = stack.schedule.segments[3].lanes[static_cast<int>(Lane::compute)];
  for (LaneStep& step : steps)
    step.release.clear();
  steps.front().release = {stack.r};  // released at its start, the reload still to come
  const Plan plan = plan_apart(stack.schedule.program);
  CpuOptions options = two_threads();
  options.poison = true;
  CpuExecutor executor(stack.schedule, plan, options);
  EXPECT_THROW(executor.step(), RunError);
}

TEST(CpuExecutorRedzone, ACopyThatEndsAfterEverythingWasReleasedIsFound) {
  OffloadStack stack(1, stack_elements);
  drop_waits(stack.schedule, 3, Lane::compute);
  auto& backward = stack.schedule.segments[3];
  std::erase(backward.exit_release, stack.host);  // so that the copy has values to bring
  const Plan plan = plan_apart(stack.schedule.program);
  CpuExecutor executor(stack.schedule, plan, slow_and_poisoned());
  EXPECT_THAT([&] { executor.step(); },
              ThrowsMessage<RunError>(HasSubstr("at the end of the step")));
}

TEST(CpuExecutor, UsesThePlansBytesAndNoMore) {
  const OffloadStack stack(layers, stack_elements);
  const Plan plan = plan_apart(stack.schedule.program);
  CpuExecutor executor(stack.schedule, plan, two_threads());
  executor.fill_arena(std::byte{0xa5});
  executor.step();
  EXPECT_EQ(read_floats(executor, stack.gradient), stack.expected_gradient(executor));
  const int64_t highest = executor.highest_changed_byte(std::byte{0xa5});
  EXPECT_LT(highest, plan.device_bytes);
  EXPECT_GE(highest, plan.device_bytes - arena_alignment);  // r, the last tensor
}

TEST(CpuExecutor, ReadsWhatWasWritten) {
  const OffloadStack stack(layers, stack_elements);
  const Plan plan = plan_apart(stack.schedule.program);
  CpuExecutor executor(stack.schedule, plan, two_threads());
  std::vector<float> ramp(static_cast<size_t>(stack_elements));
  std::iota(ramp.begin(), ramp.end(), 1.0F);
  std::vector<std::byte> bytes(ramp.size() * 4);
  std::memcpy(bytes.data(), ramp.data(), bytes.size());
  executor.write(stack.x, bytes);
  EXPECT_EQ(read_floats(executor, stack.x), ramp);
  executor.step();
  EXPECT_EQ(read_floats(executor, stack.gradient), stack.expected_gradient(executor));
  bytes.pop_back();
  EXPECT_THROW(executor.write(stack.x, bytes), std::logic_error);
  EXPECT_THROW(executor.read(stack.hidden), std::logic_error);
}

TEST(CpuExecutor, RefusesWhatItCannotRun) {
  const auto refusal = [](auto&& change, CpuOptions options = {}) {
    OffloadStack stack(layers, 8);
    change(stack.schedule.program);
    const Plan plan = plan_apart(stack.schedule.program);
    try {
      CpuExecutor(stack.schedule, plan, options);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal([](Program&) {}), "accepted");
  EXPECT_THAT(refusal([](Program& p) { p.devices = 2; }),
              HasSubstr("several devices need several processes"));
  EXPECT_THROW(refusal([](Program& p) {
                 Op& op = p.segments[1].ops[1];
                 op.kind = OpKind::matmul;
                 op.attributes.precision = Precision::fp8;
               }),
               std::logic_error)
      << "an operand that nothing quantised";
  CpuOptions fast;
  fast.slow_copy = 0.5;
  EXPECT_THAT(refusal([](Program&) {}, fast), HasSubstr("found a factor of 0.5"));
}

}  // namespace
}  // namespace spillway
