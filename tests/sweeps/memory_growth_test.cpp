// Peaks by cause: by hand on a few vectors, and exact sums on real points.
#include "sweeps/memory_growth.h"

#include <gmock/gmock.h>

#include "sweeps/sweep_file.h"
#include "tests/support/tiny_program.h"
#include "tests/sweeps/support_runs.h"

namespace spillway {
namespace {

constexpr int64_t vector_bytes = 64;  // of a TinyBuilder's slice
constexpr int64_t mib = int64_t{1} << 20;

Prepared planned(const Schedule& schedule) {
  Prepared prepared;
  prepared.schedule = schedule;
  prepared.plan = plan_memory(schedule);
  return prepared;
}

const MemoryCause& cause_named(const std::vector<MemoryCause>& causes, const std::string& begin) {
  for (const MemoryCause& cause : causes)
    if (cause.name.starts_with(begin)) return cause;
  throw std::logic_error("no cause " + begin);
}

// A value comes back from the host and is read in the iteration that reads it.
Prepared reload_in_body() {
  TinyBuilder b("reload");
  const TensorId weight = b.persistent("weight", 1), slots = b.host("slots", 3);
  b.segment("store", 3);
  const TensorId made = b.local("made");
  b.add(all(weight), all(weight), all(made));
  b.op(OpKind::copy_d2h, {all(made)}, {slice(slots, 1, 0)});
  b.segment("loop", 3);
  const TensorId a = b.local("a"), c = b.local("c"), landing = b.local("landing", Role::in_flight);
  b.add(all(weight), all(weight), all(a));
  b.op(OpKind::copy_h2d, {slice(slots, 1, 0)}, {all(landing)});
  b.add(all(a), all(landing), all(c));
  return planned(adjacent_schedule(b.program()));
}

// The same an iteration ahead through a ring; the last iteration is peeled and makes one value
// more.
Prepared reload_ahead() {
  TinyBuilder b("ahead");
  const TensorId weight = b.persistent("weight", 1), slots = b.host("slots", 3);
  b.segment("store", 3);
  const TensorId made = b.local("made");
  b.add(all(weight), all(weight), all(made));
  b.op(OpKind::copy_d2h, {all(made)}, {slice(slots, 1, 0)});
  b.segment("first", 1);
  const TensorId ring = b.ring("landing", 2);
  b.op(OpKind::copy_h2d, {slice(slots, 0, 0)}, {slice(ring, 0, 0)});
  b.segment("loop", 2);
  const TensorId a = b.local("a"), c = b.local("c");
  b.op(OpKind::copy_h2d, {slice(slots, 1, 1)}, {slice(ring, 1, 1)});
  b.add(all(weight), all(weight), all(a));
  b.add(all(a), slice(ring, 1, 0), all(c));
  b.segment("last", 1);
  const TensorId peeled_a = b.local("a@last"), peeled_c = b.local("c@last"), d = b.local("d@last");
  b.add(all(weight), all(weight), all(peeled_a));
  b.add(all(peeled_a), slice(ring, 0, 2), all(peeled_c));
  b.add(all(peeled_a), all(peeled_c), all(d));
  return planned(adjacent_schedule(b.program()));
}

TEST(MemoryGrowth, RingAndPeeledBodyByHand) {
  const std::vector<MemoryCause> causes = memory_growth(reload_in_body(), reload_ahead());
  // Base: a, landing and c beside the weight. Variant: both slots, a@, c@ and d@ in the last body;
  // the fullest moment of the loop is one value less.
  const std::map<std::string, std::pair<int64_t, int64_t>> slices = {
      {"weights, gradients", {1, 1}},
      {"copy sets carried", {0, 2}},
      {"peeled bodies: everything", {0, 1}},
      {"host copies within", {1, 0}},
      {"activations", {2, 2}}};
  int64_t growth = 0;
  for (const MemoryCause& cause : causes) {
    std::pair<int64_t, int64_t> expected{0, 0};
    for (const auto& [begin, bytes] : slices)
      if (cause.name.starts_with(begin) && !cause.name.starts_with("activations kept"))
        expected = bytes;
    EXPECT_EQ(cause.base, expected.first * vector_bytes) << cause.name;
    EXPECT_EQ(cause.variant, expected.second * vector_bytes) << cause.name;
    growth += cause.growth();
  }
  EXPECT_EQ(growth, 2 * vector_bytes);
}

int64_t role_bytes(const Prepared& prepared, Role role) {
  return prepared.plan.peak_by_role[static_cast<size_t>(role)];
}

// Sums, and what the plan itself says by role.
void expect_exact(const Prepared& base, const Prepared& variant) {
  int64_t before = 0, after = 0, collectives = 0, copies = 0;
  for (const MemoryCause& cause : memory_growth(base, variant)) {
    before += cause.base;
    after += cause.variant;
    if (cause.name.find("gathered weights") != std::string::npos ||
        cause.name.starts_with("collectives") || cause.name.starts_with("gradients around"))
      collectives += cause.variant;
    if (cause.name.find("copies") != std::string::npos || cause.name.starts_with("copy sets"))
      copies += cause.variant;
  }
  EXPECT_EQ(before, base.plan.device_bytes);
  EXPECT_EQ(after, variant.plan.device_bytes);
  EXPECT_EQ(collectives, role_bytes(variant, Role::gathered_weight));
  // A layer input that is moved is no buffer in flight by role, and has no more slots than a ring.
  if (variant.point.policy.find("decoder_layer_input") == std::string::npos) {
    EXPECT_EQ(copies, role_bytes(variant, Role::in_flight));
  }
}

TEST(MemoryGrowth, TinyVariantsSumToTheirPlans) {
  const std::vector<RunVariant> variants =
      every_schedule({"full", "qkv_proj_offloaded", "decoder_layer_input=offload,context=offload"});
  const Prepared base = plan_point(tiny_point(variants.front(), 2, 16), {});
  for (const RunVariant& variant : variants) {
    SCOPED_TRACE(label(variant));
    expect_exact(base, plan_point(tiny_point(variant, 2, 16), {}));
  }
}

TEST(MemoryGrowth, PublishedPointsSumToTheirPlans) {
  for (const char* name : {"llama3.1-405b-published", "deepseek-v3-published"}) {
    const std::vector<SweepPoint> points = load_sweep(name).points;
    const Prepared base = plan_point(points.front().point, {});
    for (const SweepPoint& point : points) {
      SCOPED_TRACE(point.label);
      expect_exact(base, plan_point(point.point, {}));
    }
  }
}

Point published_point(const std::string& label) {
  for (const SweepPoint& point : load_sweep("deepseek-v3-published").points)
    if (point.label == label) return point.point;
  throw std::logic_error("no point " + label);
}

// The article's pair: LHS off, and LHS + pipelined. What was measured grew by 19.6 GiB.
TEST(MemoryGrowth, OfThePublishedDeepSeekPairByCause) {
  const Prepared off = plan_point(published_point("offload, LHS off"), {});
  const Prepared pipelined = plan_point(published_point("offload + LHS + pipelined"), {});
  int64_t growth = 0;
  for (const MemoryCause& cause : memory_growth(off, pipelined)) {
    growth += cause.growth();
    if (cause.growth() != 0)
      RecordProperty(cause.name + " MiB", static_cast<int>(cause.growth() / mib));
  }
  EXPECT_EQ(growth, pipelined.plan.device_bytes - off.plan.device_bytes);
  EXPECT_GT(growth, 0);
}

// A layer of DeepSeek-V3 at micro batch 8 offloads 96 + 36 + 2 * 1024 + 2 * 128 MiB (its tensors'
// shapes, mechanisms.md 1.6): pipelined backward, one set is carried, and what lands for the next
// layer at that moment stands in staging.
TEST(MemoryGrowth, OneSetIsCarriedOnDeepSeek) {
  const std::vector<MemoryCause> causes =
      memory_growth(plan_point(published_point("offload + LHS"), {}),
                    plan_point(published_point("offload + LHS + pipelined"), {}));
  EXPECT_EQ(cause_named(causes, "copy sets carried").growth(), 2436 * mib);
  EXPECT_LE(cause_named(causes, "copies of loop state").growth(), 2436 * mib);
  EXPECT_EQ(cause_named(causes, "copies made before").growth(), 0);
}

}  // namespace
}  // namespace spillway
