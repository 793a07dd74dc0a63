// Plans against what runs really touch, and against the least that could do.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <set>

#include <gmock/gmock.h>

#include "sweeps/sweep_file.h"
#include "tests/sweeps/support_runs.h"

namespace spillway {
namespace {

// Shapes whose tensors are no multiples of each other: 3 x 40 rows.
constexpr int64_t odd_micro_batch = 3, odd_seq = 40;

const std::vector<RunVariant>& plan_variants() {
  static const std::vector<RunVariant> list =
      every_schedule({"full", "query_proj=device,key_proj=device,value_proj=device",
                      "qkv_proj_offloaded", "decoder_layer_input=offload,context=offload"});
  return list;
}

int64_t aligned(int64_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

TEST(PlanTruth, AStepChangesBytesUpToThePeakAndNoneBehindIt) {
  constexpr std::byte pattern{0xa5};
  const auto memory = std::make_shared<CpuMemory>();
  for (const RunVariant& variant : plan_variants()) {
    SCOPED_TRACE(label(variant));
    const Prepared prepared = prepare(tiny_point(variant, odd_micro_batch, odd_seq), {});
    CpuExecutor executor(prepared.schedule, prepared.plan, {.threads = 1}, memory);
    for (int step = 0; step < 2; ++step) {
      executor.fill_arena(pattern);
      ASSERT_LT(executor.highest_changed_byte(pattern) + arena_alignment,
                prepared.plan.device_bytes);
      executor.step();
      EXPECT_EQ(aligned(executor.highest_changed_byte(pattern) + 1), prepared.plan.device_bytes);
    }
  }
}

TEST(PlanTruth, EveryTensorIsInsideItsArena) {
  for (const RunVariant& variant : plan_variants()) {
    SCOPED_TRACE(label(variant));
    const Prepared prepared = prepare(tiny_point(variant, odd_micro_batch, odd_seq), {});
    const Plan& plan = prepared.plan;
    const std::vector<Tensor>& tensors = prepared.schedule.program.tensors;
    int64_t host_bytes = 0;
    ASSERT_EQ(plan.offset.size(), tensors.size());
    for (size_t id = 0; id < tensors.size(); ++id) {
      if (plan.offset[id] < 0) continue;
      const bool on_host = tensors[id].space == Space::host;
      EXPECT_EQ(plan.offset[id] % arena_alignment, 0) << tensors[id].name;
      EXPECT_LE(plan.offset[id] + tensors[id].bytes(),
                on_host ? plan.host_arena_bytes : plan.device_bytes)
          << tensors[id].name;
      if (on_host) host_bytes += tensors[id].bytes();
    }
    EXPECT_EQ(plan.host_bytes, host_bytes);
  }
}

// Redzones: a write outside live tensors throws.
TEST(PlanTruth, NoByteOutsideALiveTensorChanges) {
  const auto memory = std::make_shared<CpuMemory>();
  for (const RunVariant& variant : plan_variants()) {
    SCOPED_TRACE(label(variant));
    Point point = tiny_point(variant, odd_micro_batch, odd_seq);
    const Outcome plain = run_cpu(prepare(point, {}), memory, 2, 0);
    point.poison = true;
    const Outcome poisoned = run_cpu(prepare(point, {}), memory, 2, 0);
    EXPECT_EQ(poisoned.losses, plain.losses);
    EXPECT_EQ(poisoned.gradient_digest, plain.gradient_digest);
  }
}

// Whatever copies wait for, values are the same to the bit, in a poisoned arena and with slow copies.
TEST(PlanTruth, StreamsChangeNoValue) {
  const auto memory = std::make_shared<CpuMemory>();
  for (const std::string policy :
       {"qkv_proj_offloaded", "decoder_layer_input=offload,context=offload"}) {
    for (RunVariant variant : every_schedule({policy})) {
      const Outcome expected =
          run_cpu(prepare(tiny_point(variant, odd_micro_batch, odd_seq), {}), memory, 2, 0);
      for (const Streams streams : {Streams::precise, Streams::xla}) {
        variant.streams = streams;
        SCOPED_TRACE(label(variant));
        Point point = tiny_point(variant, odd_micro_batch, odd_seq);
        point.poison = true;
        for (const double slow : {1.0, 20.0}) {
          point.slow_copy = slow;
          const Outcome found = run_cpu(prepare(point, {}), memory, 2, 0);
          EXPECT_EQ(found.losses, expected.losses);
          EXPECT_EQ(found.gradient_digest, expected.gradient_digest);
        }
      }
    }
  }
}

// What a point needs can depend on what it is given: LHS's memory rule saves where it is tight. So
// the capacity is lowered to just below plan after plan, until one is refused.
TEST(PlanTruth, ExactlyThePeakIsEnoughAndOneUnitLessIsNot) {
  const auto memory = std::make_shared<CpuMemory>();
  for (const RunVariant& variant : plan_variants()) {
    SCOPED_TRACE(label(variant));
    Point point = tiny_point(variant, odd_micro_batch, odd_seq);
    Prepared enough, next = prepare(point, {});
    for (int plans = 0; plans < 10 && next.status == Status::ok; ++plans) {
      point.hbm_bytes = next.plan.device_bytes;
      enough = prepare(point, {});
      ASSERT_EQ(enough.status, Status::ok) << enough.reason;
      ASSERT_EQ(enough.plan.device_bytes, next.plan.device_bytes);
      point.hbm_bytes = enough.plan.device_bytes - arena_alignment;
      next = prepare(point, {});
    }
    EXPECT_EQ(next.status, Status::oom);
    EXPECT_THAT(next.reason, testing::HasSubstr(std::to_string(*point.hbm_bytes)));
    EXPECT_EQ(run_cpu(enough, memory, 1, 0).losses.size(), 1u);
  }
}

// Device bytes alive at each compute step, from the schedule's own marks: what a memory without
// gaps would need.
struct Alive {
  int64_t total = 0, stacked = 0;  // stacked: residuals of all layers
};

class LiveWalk {
 public:
  explicit LiveWalk(const Schedule& schedule) : program_(schedule.program) {
    for (const Tensor& tensor : program_.tensors)
      if (tensor.extent == Extent::persistent) count(tensor, 1);
    persistent_ = now_.total;
    for (const SegmentSchedule& segment : schedule.segments)
      walk(segment);
  }
  int64_t persistent() const { return persistent_; }
  const std::vector<Alive>& steps() const { return steps_; }

 private:
  void walk(const SegmentSchedule& segment) {
    count(segment.enter_allocate, 1);
    for (const LaneStep& step : segment.lanes[static_cast<size_t>(Lane::compute)]) {
      count(step.allocate, 1);
      steps_.push_back(now_);
      count(step.release, -1);
    }
    count(segment.exit_release, -1);
  }
  void count(const std::vector<TensorId>& ids, int sign) {
    for (const TensorId id : ids)
      count(program_.at(id), sign);
  }
  void count(const Tensor& tensor, int sign) {
    if (tensor.space != Space::device) return;
    now_.total += sign * tensor.bytes();
    if (tensor.extent == Extent::step && tensor.role == Role::kept)
      now_.stacked += sign * tensor.bytes();
  }

  const Program& program_;
  Alive now_;
  int64_t persistent_ = 0;
  std::vector<Alive> steps_;
};

// Transient: all but weights, gradients, optimizer state and stacked residuals.
void expect_tight(const Prepared& prepared, const std::string& name) {
  const LiveWalk live(prepared.schedule);
  int64_t peak = 0, transient = 0, stacked = 0;
  for (const Alive& step : live.steps()) {
    peak = std::max(peak, step.total);
    stacked = std::max(stacked, step.stacked);
    transient = std::max(transient, step.total - live.persistent() - step.stacked);
  }
  const Plan& plan = prepared.plan;
  EXPECT_EQ(plan.live_peak, peak);
  EXPECT_EQ(plan.static_bytes, live.persistent() + stacked);
  ASSERT_GT(transient, 0);
  const auto ratio = [&](int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(transient);
  };
  const double gaps = 0.01;
  EXPECT_LE(ratio(plan.device_bytes - plan.static_bytes), 1 + gaps);
  EXPECT_LE(ratio(plan.device_bytes - peak), gaps);  // also where the peak is without residuals
  std::printf("%s: transient peak %.6f of the largest live sum, gaps %.6f\n", name.c_str(),
              ratio(plan.device_bytes - plan.static_bytes), ratio(plan.device_bytes - peak));
}

TEST(PlanTruth, EveryPointOfTheShippedSweepsIsPlannedTight) {
  std::set<std::string> seen;
  for (const std::string& name : sweep_names()) {
    for (const SweepPoint& point : load_sweep(name).points) {
      if (!seen.insert(key_of(point)).second) continue;
      SCOPED_TRACE(name + ": " + point.label);
      expect_tight(prepare(point.point, {}), name + ", " + point.label);
    }
  }
  EXPECT_GE(seen.size(), 10u);
}

// 126 layers x (16384 + 1024 + 1024) values of bf16 x 2 x 8192 tokens.
TEST(PlanTruth, PublishedOffloadNeedsTheBytesOfItsQkv) {
  int64_t offloading = 0;
  for (const SweepPoint& point : load_sweep("llama3.1-405b-published").points) {
    const int64_t host_bytes = prepare(point.point, {}).plan.host_bytes;
    const bool offloads = point.point.policy == "qkv_proj_offloaded";
    EXPECT_EQ(host_bytes, offloads ? 76'101'451'776 : 0) << point.label;
    offloading += offloads ? 1 : 0;
  }
  EXPECT_EQ(offloading, 3);
}

}  // namespace
}  // namespace spillway
