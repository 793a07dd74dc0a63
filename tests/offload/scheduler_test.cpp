// Orders without and with latency hiding: where starts and dones stand, which rule decides, and
// that every schedule means its program.
#include "offload/scheduler.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "harness/error.h"
#include "offload/pipeline.h"
#include "offload/policy.h"
#include "tests/offload/support.h"
#include "tests/support/interpreter.h"

namespace spillway {
namespace {

using testing::HasSubstr;

SchedulerOptions options(bool lhs, double copy_seconds = 0.3) {
  SchedulerOptions made;
  made.lhs = lhs;
  made.seconds = [copy_seconds](const Program&, const Op& op) {
    if (op.kind == OpKind::matmul) return 1.0;
    return lane_of(op) == Lane::compute ? 0.01 : copy_seconds;
  };
  return made;
}

// The compute lane of a body as words: "gate", "start d2h.gate", "done d2h.gate".
std::vector<std::string> compute_lane(const ScheduleResult& result, const std::string& segment) {
  const Program& program = result.schedule.program;
  std::vector<std::string> words;
  for (size_t s = 0; s < program.segments.size(); ++s) {
    if (program.segments[s].name != segment) continue;
    for (const LaneStep& step : result.schedule.segments[s].lanes[0]) {
      const std::string& name = program.segments[s].ops[static_cast<size_t>(step.op)].name;
      const char* kinds[] = {"", "start ", "done "};
      words.push_back(kinds[static_cast<int>(step.kind)] + name);
    }
  }
  return words;
}

long place(const std::vector<std::string>& words, const std::string& word) {
  const auto found = std::find(words.begin(), words.end(), word);
  EXPECT_NE(found, words.end()) << word << " is not in " << testing::PrintToString(words);
  return found - words.begin();
}

TEST(LhsOff, HostCopiesBlockBesideTheirProducerAndFirstReader) {
  const Program program = with_policy(mlp_stack(4), "mlpwi_0=offload");
  const ScheduleResult result = schedule_program(program, options(false));
  const auto forward = compute_lane(result, "layers.forward");
  EXPECT_EQ(place(forward, "start d2h.gate"), place(forward, "gate") + 1);
  EXPECT_EQ(place(forward, "done d2h.gate"), place(forward, "gate") + 2);
  const auto backward = compute_lane(result, "layers.backward");
  EXPECT_EQ(place(backward, "done h2d.gate"), place(backward, "start h2d.gate") + 1);
  const long reader = std::min(place(backward, "swiglu.remat"), place(backward, "swiglu.backward"));
  EXPECT_EQ(place(backward, "done h2d.gate"), reader - 1);
  EXPECT_TRUE(result.rule_counts.empty());
}

TEST(LhsOff, CollectivesByOption) {
  const Program program = with_policy(sharded_mlp_stack(4), "full");
  SchedulerOptions off = options(false);
  const auto post = compute_lane(schedule_program(program, off), "layers.forward");
  EXPECT_EQ(place(post, "start gather.f.gate"), place(post, "cast.f.gate") + 1);
  EXPECT_EQ(place(post, "done gather.f.gate"), place(post, "gate") - 1);
  off.collectives_without_lhs = CollectivesWithoutLhs::adjacent;
  const auto adjacent = compute_lane(schedule_program(program, off), "layers.forward");
  for (const char* name : {"norm", "gate", "up", "down"}) {
    const std::string gather = std::string("gather.f.") + name;
    EXPECT_EQ(place(adjacent, "done " + gather), place(adjacent, "start " + gather) + 1);
  }
}

// A rotated collective is used only by the next iteration (or was ready before this one), so XLA's
// post-process spreads it over the whole body, the write of the scattered shard last.
TEST(LhsOff, RotatedCollectivesSpanTheBody) {
  const Program program =
      pipeline(with_policy(sharded_mlp_stack(4), "full"), {.collectives = true});
  const auto words = compute_lane(schedule_program(program, options(false)), "layers.backward");
  const long first_matmul = place(words, "gate.remat"), last_matmul = place(words, "up.dgrad");
  for (const char* name : {"gather.b.gate", "gather.b.down", "scatter.gate", "scatter.down"}) {
    EXPECT_LT(place(words, std::string("start ") + name), first_matmul) << name;
    EXPECT_GT(place(words, std::string("done ") + name), last_matmul) << name;
  }
}

TEST(LhsOff, TheOrderOfLowestPeakIsTaken) {
  // Program order of the sharded body gathers each weight just before its use; listing all gathers
  // first must not survive.
  Program program = with_policy(sharded_mlp_stack(4), "full");
  Segment& forward = program.segments[1];
  std::stable_partition(forward.ops.begin(), forward.ops.end(), [](const Op& op) {
    return op.kind == OpKind::slice_cast || op.kind == OpKind::all_gather;
  });
  SchedulerOptions off = options(false);
  off.collectives_without_lhs = CollectivesWithoutLhs::adjacent;
  const auto words = compute_lane(schedule_program(program, off), "layers.forward");
  EXPECT_GT(place(words, "start gather.f.down"), place(words, "swiglu"));
  EXPECT_GT(place(words, "start gather.f.gate"), place(words, "norm"));
}

TEST(LhsOn, WritesStartAtTheirProducerAndEndWithTheBody) {
  const Program program = with_policy(mlp_stack(4), "mlpwi_0=offload,mlpwi_1=offload");
  const ScheduleResult result = schedule_program(program, options(true));
  const auto words = compute_lane(result, "layers.forward");
  EXPECT_EQ(place(words, "start d2h.gate"), place(words, "gate") + 1);
  EXPECT_EQ(place(words, "start d2h.up"), place(words, "up") + 1);
  const std::vector<std::string> tail(words.end() - 2, words.end());
  EXPECT_THAT(tail, testing::UnorderedElementsAre("done d2h.gate", "done d2h.up"));
  EXPECT_GT(result.rule_counts.at("kScheduleDone"), 0);
  EXPECT_GT(result.rule_counts.at("kDelayMoveToHostAsyncStart"), 0);
}

TEST(LhsOn, ReloadsStartAtTheTopAndIndependentWorkHidesThem) {
  const Program program = with_policy(mlp_stack(4), "mlpwi_0=offload,mlpwi_1=offload");
  const auto words = compute_lane(schedule_program(program, options(true)), "layers.backward");
  const long top = std::max(place(words, "start h2d.gate"), place(words, "start h2d.up"));
  const long first_run = static_cast<long>(
      std::find_if(words.begin(), words.end(),
                   [](const std::string& word) { return word.find(' ') == std::string::npos; }) -
      words.begin());
  EXPECT_LT(top, first_run);
  // The down projection's dgrad reads only d_hidden: it stands between start and done.
  const long waits = std::min(place(words, "done h2d.gate"), place(words, "done h2d.up"));
  EXPECT_LT(place(words, "down.dgrad"), waits);
  EXPECT_GT(waits, top);
}

TEST(LhsOn, WithoutAnythingToHideBehindTheReloadIsExposed) {
  // The layer input's first reader is the first op of the recomputation, and everything else but
  // the down projection's dgrad depends on it.
  const Program program = with_policy(mlp_stack(4), "decoder_layer_input=offload");
  const auto words = compute_lane(schedule_program(program, options(true, 5.0)), "layers.backward");
  EXPECT_EQ(place(words, "done h2d.hidden"), place(words, "norm.remat") - 1);
  EXPECT_EQ(place(words, "start h2d.hidden"), 0);
}

TEST(LhsOn, RotatedCopiesSpanTheBody) {
  const Program program =
      pipeline(with_policy(mlp_stack(4), "mlpwi_0=offload,mlpwi_1=offload"), {.host_copies = true});
  const ScheduleResult result = schedule_program(program, options(true));
  for (const char* segment : {"layers.forward", "layers.backward"}) {
    const auto words = compute_lane(result, segment);
    for (size_t k : {size_t{0}, size_t{1}})
      EXPECT_THAT(words[k], HasSubstr("start ")) << segment;
    for (size_t k : {size_t{1}, size_t{2}}) {
      EXPECT_THAT(words[words.size() - k], HasSubstr("done ")) << segment;
    }
  }
}

TEST(LhsOn, OneCollectiveIsOpenAtATime) {
  for (const bool rotated : {false, true}) {
    const Program program =
        pipeline(with_policy(sharded_mlp_stack(4), "full"), {.collectives = rotated});
    const ScheduleResult result = schedule_program(program, options(true));
    for (const char* segment : {"layers.forward", "layers.backward"}) {
      int open = 0;
      for (const std::string& word : compute_lane(result, segment)) {
        if (word.find("gather.") == std::string::npos && word.find("scatter.") == std::string::npos)
          continue;
        open += word.starts_with("start ") ? 1 : -1;
        EXPECT_LE(open, 1) << segment << ' ' << word;
      }
    }
  }
}

// A gather of half a matmul's time starts a matmul ahead of its reader.
TEST(LhsOn, GathersLeadTheirReaders) {
  const Program program = with_policy(sharded_mlp_stack(4), "full");
  const auto words = compute_lane(schedule_program(program, options(true, 0.5)), "layers.forward");
  EXPECT_LT(place(words, "start gather.f.up"), place(words, "gate"));
  EXPECT_GT(place(words, "done gather.f.up"), place(words, "gate"));
  EXPECT_LT(place(words, "start gather.f.down"), place(words, "up"));
}

// The longer a gather takes, the earlier it starts: bottom-up, its start is not due before.
TEST(LhsOn, LatencyStretchesStartAndDone) {
  const Program program = with_policy(sharded_mlp_stack(4), "full");
  const auto quick = compute_lane(schedule_program(program, options(true, 0.2)), "layers.forward");
  const auto slow = compute_lane(schedule_program(program, options(true, 3.0)), "layers.forward");
  const auto first_projection = [](const std::vector<std::string>& words) {
    return std::min(place(words, "gate"), place(words, "up"));
  };
  EXPECT_GT(place(quick, "start gather.f.down"), first_projection(quick));
  EXPECT_LT(place(slow, "start gather.f.down"), first_projection(slow));
}

// Of two ops nobody in the body reads, the one at the end of the longer chain of copies comes last,
// against the program's order.
TEST(LhsOn, TheDeeperAsynchronousChainComesLast) {
  Program program;
  const auto tensor = [&](const char* name, Extent extent, Space space) {
    return program.add({.name = name,
                        .shape = {8, 16},
                        .dtype = DType::f32,
                        .extent = extent,
                        .space = space,
                        .activations = {}});
  };
  const TensorId slot = tensor("slot", Extent::persistent, Space::host);
  const TensorId here = tensor("here", Extent::persistent, Space::device);
  const TensorId landed = tensor("landed", Extent::local, Space::device);
  const TensorId near = tensor("near", Extent::local, Space::device);
  const TensorId far = tensor("far", Extent::local, Space::device);
  const TensorId near_end = tensor("near_end", Extent::persistent, Space::device);
  const TensorId far_end = tensor("far_end", Extent::persistent, Space::device);
  const auto op = [](OpKind kind, const char* name, TensorId in, TensorId out) {
    return Op{.kind = kind,
              .name = name,
              .inputs = {{in, {}}, {in, {}}},
              .outputs = {{out, {}}},
              .attributes = {}};
  };
  Op reload = op(OpKind::copy_h2d, "reload", slot, landed);
  reload.inputs.pop_back();
  program.segments.push_back(
      {"body",
       Pass::other,
       1,
       -1,
       {reload, op(OpKind::add, "far", landed, far), op(OpKind::add, "far_end", far, far_end),
        op(OpKind::add, "near", here, near), op(OpKind::add, "near_end", near, near_end)}});
  EXPECT_EQ(compute_lane(schedule_program(program, options(true)), "body").back(), "far_end");
  SchedulerOptions without = options(true);
  without.rules = {{"kAsyncDepth", false}};
  EXPECT_EQ(compute_lane(schedule_program(program, without), "body").back(), "near_end");
}

int64_t live_peak(const ScheduleResult& result, const std::string& segment) {
  const Program& program = result.schedule.program;
  int64_t live = 0, peak = 0;
  for (size_t s = 0; s < program.segments.size(); ++s) {
    if (program.segments[s].name != segment) continue;
    for (const LaneStep& step : result.schedule.segments[s].lanes[0]) {
      for (TensorId id : step.allocate)
        live += program.at(id).bytes();
      peak = std::max(peak, live);
      for (TensorId id : step.release)
        live -= program.at(id).bytes();
    }
  }
  return peak;
}

TEST(LhsOn, UnderMemoryPressureMemoryDecidesFirst) {
  const Program program = with_policy(sharded_mlp_stack(4), "full");
  SchedulerOptions on = options(true, 3.0);
  const ScheduleResult free = schedule_program(program, on);
  on.memory_limit = live_peak(free, "layers.backward") / 2;
  const ScheduleResult tight = schedule_program(program, on);
  EXPECT_EQ(free.rule_counts.at("kMemoryPeakOverLimit"), 0);
  EXPECT_EQ(free.rule_counts.at("kDecreaseMemory"), 0);
  EXPECT_GT(tight.rule_counts.at("kDecreaseMemoryOverLimit") +
                tight.rule_counts.at("kMemoryPeakOverLimit"),
            0);
  EXPECT_LT(live_peak(tight, "layers.backward"), live_peak(free, "layers.backward"));
}

TEST(LhsOn, RulesAreXlasInOrderAndCanBeSwitchedOff) {
  const std::vector<std::string> expected = {// mechanisms 3.6, rules 5 to 25
                                             "kDecreaseMemoryOverLimit",
                                             "kMemoryPeakOverLimit",
                                             "kDelayMoveToHostAsyncStart",
                                             "kScheduleDone",
                                             "kLessStall",
                                             "kStartAtZeroDepth",
                                             "kFreeBackedupResource",
                                             "kAsyncDepth",
                                             "kAvoidWaste",
                                             "kUnlockDone",
                                             "kCreatesMoreReadyNodes",
                                             "kDecreaseMemory",
                                             "kOriginalOrder"};
  // Those that are on by default and need no hint.
  std::vector<std::string> names;
  for (const LhsRuleInfo& rule : lhs_rule_table())
    if (rule.on_by_default && rule.needs[0] == '\0' && rule.name[0] == 'k')
      names.push_back(rule.name);
  EXPECT_EQ(names, expected);
  const Program program = with_policy(mlp_stack(4), "mlpwi_0=offload");
  SchedulerOptions on = options(true);
  on.rules = parse_lhs_rules("kDelayMoveToHostAsyncStart=off,kLessStall=off,kStartAtZeroDepth=off");
  const ScheduleResult result = schedule_program(program, on);
  EXPECT_EQ(result.rule_counts.count("kLessStall"), 0u);
  EXPECT_NE(compute_lane(result, "layers.forward"),
            compute_lane(schedule_program(program, options(true)), "layers.forward"));
  on.rules = {{"kHurry", false}};
  EXPECT_THROW(schedule_program(program, on), InputError);
}

// Whatever the order: asynchronous ops may take effect at their start or at their done, and tensors
// are undefined outside their lifetimes.
TEST(Schedules, MeanTheirProgram) {
  for (int64_t layers : {1, 2, 5}) {
    for (const auto& stack : {mlp_stack, sharded_mlp_stack}) {
      const Program built = stack(layers);
      Interpreter meaning(built, Stage::built);
      meaning.step();
      for (const char* policy :
           {"full", "minimal_offloaded", "decoder_layer_input=offload,mlpwi_0=offload"}) {
        for (int bits = 0; bits < 32; ++bits) {
          const PipelineOptions rotation{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
          SchedulerOptions chosen = options((bits & 8) != 0);
          if ((bits & 16) != 0) chosen.collectives_without_lhs = CollectivesWithoutLhs::adjacent;
          const Schedule schedule =
              schedule_program(pipeline(with_policy(built, policy), rotation), chosen).schedule;
          for (auto effect : {Interpreter::Effect::at_start, Interpreter::Effect::at_done}) {
            Interpreter run(schedule.program);
            run.step(schedule, effect);
            EXPECT_EQ(run.persistent(), meaning.persistent())
                << policy << ' ' << layers << ' ' << bits;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace spillway
