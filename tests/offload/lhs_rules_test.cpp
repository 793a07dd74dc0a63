// Every comparison rule of latency hiding on the smallest body that shows it: switching the rule
// changes the order to what its meaning says.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/offload/lhs_body.h"

namespace spillway {
namespace {

struct RuleCase {
  const char* rule;
  std::function<void(LhsBody&)> build;
  const char* on;  // orders by hand, from the end: what wins is placed first
  const char* off;
};

// Two runs that nothing tells apart stand as in the program; `b` is hinted.
std::function<void(LhsBody&)> two_runs(const std::function<void(LhsBody&)>& hint) {
  return [hint](LhsBody& body) {
    body.run("a");
    body.run("b");
    hint(body);
  };
}

// x is live once its reader `use` is placed; then the limit is reached, and only `make` frees it. `a`
// makes `before` ready, which without the rule counts for more than memory.
void over_the_limit(LhsBody& body) {
  const TensorId x = body.make("make");
  const TensorId y = body.run("before");
  body.run("a", {y});
  body.run("use", {x});
  body.options.memory_limit = 64;
}

// The start of `second` has an async op before it, so only its rule sends it up.
void chain(LhsBody& body, OpKind second, double seconds) {
  const TensorId x = body.reload("h", 1);
  if (second == OpKind::copy_d2h)
    body.write("s", seconds, {x});
  else
    body.gather("s", seconds, {x});
  body.run("r");
}

// A start that is due after one of two runs.
void start_among_runs(LhsBody& body, double run_seconds) {
  body.gather("g", 1);
  body.run("a", {}, run_seconds);
  body.run("b", {}, run_seconds);
}

const std::vector<RuleCase>& hinted_cases() {
  static const std::vector<RuleCase> cases = {
      {"kForceEarly", two_runs([](LhsBody& b) { b.hint("b").force_early = true; }), "b a", "a b"},
      {"kForceDelay", two_runs([](LhsBody& b) { b.hint("b").force_delay = true; }), "b a", "a b"},
      {"kForceDelayPriority", two_runs([](LhsBody& b) { b.hint("b").force_delay_priority = 1; }),
       "b a", "a b"},
      {"kPreference", two_runs([](LhsBody& b) {
         b.hint("a").preference = 2;
         b.hint("b").preference = 1;
       }),
       "b a", "a b"},
      // Once w> is placed its window is open: the product goes next to it.
      {"kSelectiveMemcpyOverlap",
       [](LhsBody& b) {
         b.product("a");
         b.run("b");
         b.write("w", 10);
         b.hint("w").window = true;
       },
       "<w b a w>", "<w a b w>"},
      {"kForceDelayAfterTarget",
       two_runs([](LhsBody& b) { b.hint("b").force_delay_after_target = true; }), "b a", "a b"},
      {"kDelayDoneOfForceDelayedAsyncStart",
       [](LhsBody& b) {
         b.write("v", 0);
         b.write("w", 0);
         b.hint("w").force_delay = true;
       },
       "<w <v w> v>", "<w <v v> w>"},
      // After b the start is 4 s overdue.
      {"kReleaseNonextendable",
       [](LhsBody& b) {
         start_among_runs(b, 5);
         b.hint("g").non_extendable = true;
       },
       "a <g b g>", "<g a b g>"},
      // With w> open, v> would be the second of their resource and u> is not.
      {"kLessSerialResourceConflict",
       [](LhsBody& b) {
         b.write("u", 0);
         b.write("v", 0);
         b.write("w", 0);
         b.hint("v").serial = b.hint("w").serial = true;
       },
       "<u <v <w v> u> w>", "<u <v <w u> v> w>"},
      // s> is ready but f holds the one lane: a, worth running beside s, waits for it behind b.
      {"kNotValuableForSelectiveOverlap",
       [](LhsBody& b) {
         b.gather("s", 0);
         b.run("b");
         b.run("a");
         b.gather("f", 5);
         b.hint("s").selective = true;
         b.hint("a").valuable = true;
       },
       "<s s> <f a b f>", "<s s> <f b a f>"},
      // Over the limit `make` would go first; forced to wait it goes last.
      {"force_delay_over_memory_pressure",
       [](LhsBody& b) {
         over_the_limit(b);
         b.hint("make").force_delay_after_target = true;
       },
       "make before a use", "before a make use"},
  };
  return cases;
}

const std::vector<RuleCase>& memory_cases() {
  static const std::vector<RuleCase> cases = {
      {"kDecreaseMemoryOverLimit", over_the_limit, "before a make use", "before make a use"},
      // 128 of 150 bytes are live after `use`; `big` would bring a third value of 64.
      {"kMemoryPeakOverLimit",
       [](LhsBody& b) {
         const TensorId y = b.make("y");
         b.run("big", {y});
         const TensorId m = b.make("m"), n = b.make("n");
         b.run("use", {m, n});
         b.options.memory_limit = 150;
       },
       "y m big n use", "y m n big use"},
      {"kDecreaseMemory",
       [](LhsBody& b) {
         const TensorId x = b.make("make");
         b.run("a");
         b.run("use", {x});
         b.options.memory_limit = 100;
       },
       "a make use", "make a use"},
      // Both free memory, m twice as much.
      {"decrease_memory_bytes",
       [](LhsBody& b) {
         const TensorId m = b.make("m", 2), n = b.make("n");
         b.run("use", {m, n});
         b.options.memory_limit = 300;
       },
       "n m use", "m n use"},
  };
  return cases;
}

const std::vector<RuleCase>& latency_cases() {
  static const std::vector<RuleCase> cases = {
      {"kDelayAsyncStartForCompute",
       [](LhsBody& b) {
         chain(b, OpKind::all_gather, 0);
         b.options.limits.collectives = 2;
       },
       "<h h> <s r s>", "<h r h> <s s>"},
      // Without it of two free starts the later in the program wins; g's has 5 s of compute above.
      // What a start reads is a unit of latency away, so the other start comes first.
      {"kDelayAsyncStartForDepth",
       [](LhsBody& b) {
         b.gather("g", 0, {b.run("c", {}, 5)});
         b.gather("f", 0, {b.run("d", {}, 1)});
         b.options.limits.collectives = 2;
       },
       "c d <f <g g> f>", "c d <g <f g> f>"},
      {"kDelayMoveToHostAsyncStart", [](LhsBody& b) { chain(b, OpKind::copy_d2h, 0); },
       "<h h> <s r s>", "<h r h> <s s>"},
      {"kScheduleByStructure",
       [](LhsBody& b) {
         b.run("a", {b.run("before")});
         b.run("b");
       },
       "before a b", "before b a"},
      {"kScheduleDone",
       [](LhsBody& b) {
         b.write("w", 0);
         b.run("r", {b.run("before")});
       },
       "<w before r w>", "<w before w> r"},
      {"kScheduleStart", [](LhsBody& b) { start_among_runs(b, 1); }, "a <g b g>", "<g a b g>"},
      // A run without length leaves what is before it a unit of latency away; g's start is due.
      {"kStartAtZeroDepthOverStall",
       [](LhsBody& b) {
         b.gather("g", 0);
         b.run("r", {b.run("before", {}, 0)}, 0);
       },
       "<g before r g>", "before <g r g>"},
      {"kLessStall", [](LhsBody& b) { chain(b, OpKind::all_gather, 3); }, "<h h> <s r s>",
       "<h r h> <s s>"},
      {"kStartAtZeroDepth",
       [](LhsBody& b) {
         b.run("r");
         b.gather("g", 0, {b.run("before")});
       },
       "before <g r g>", "before r <g g>"},
      // f> waits for the lane that g's start frees.
      {"kFreeBackedupResource",
       [](LhsBody& b) {
         b.gather("f", 0);
         b.gather("g", 0);
         b.run("r");
       },
       "<f r f> <g g>", "<f f> <g r g>"},
      {"kAsyncDepth",
       [](LhsBody& b) {
         b.run("y", {b.run("x", {b.reload("h", 1)})});
         b.run("n", {b.run("m")});
       },
       "<h m n h> x y", "<h m h> x y n"},
      // g's start is due in a second, which a fills and b overshoots.
      {"kAvoidWaste",
       [](LhsBody& b) {
         b.gather("g", 1);
         b.run("a", {}, 1);
         b.run("b", {}, 5);
       },
       "<g b a g>", "<g a b g>"},
      {"kUnlockDone",
       [](LhsBody& b) {
         b.run("u", {b.reload("h", 0)});
         b.run("v", {b.run("before")});
       },
       "<h before v h> u", "<h before h> u v"},
      {"kCreatesMoreReadyNodes",
       [](LhsBody& b) {
         b.run("a", {b.run("before")});
         b.run("b");
       },
       "before b a", "before a b"},
      // Without any rule what became ready first is placed first.
      {"kOriginalOrder", two_runs([](LhsBody&) {}), "a b", "b a"},
      // g's start is 5 s away, w's is due. To the letter the write goes up even so.
      {"stall_over_move_to_host",
       [](LhsBody& b) {
         b.write("w", 0);
         b.gather("g", 5);
       },
       "<g <w w> g>", "<w <g w> g>"},
      // On one lane g's second comes after the 3 s of f.
      {"lane_depth",
       [](LhsBody& b) {
         const TensorId f = b.gather("f", 3), g = b.gather("g", 1);
         b.run("u", {f});
         b.run("v", {g});
       },
       "<f f> <g u g> v", "<g g> <f v f> u"},
  };
  return cases;
}

std::vector<RuleCase> rule_cases() {
  std::vector<RuleCase> cases = hinted_cases();
  for (const auto* more : {&memory_cases(), &latency_cases()})
    cases.insert(cases.end(), more->begin(), more->end());
  return cases;
}

TEST(LhsRulesTest, EveryRuleHasACase) {
  std::set<std::string> in_table, here;
  for (const LhsRuleInfo& rule : lhs_rule_table())
    EXPECT_TRUE(in_table.insert(rule.name).second) << rule.name;
  for (const RuleCase& c : rule_cases())
    EXPECT_TRUE(here.insert(c.rule).second) << c.rule;
  EXPECT_EQ(in_table, here);
  RecordProperty("rules", static_cast<int>(here.size()));
}

TEST(LhsRulesTest, SwitchingARuleChangesTheOrder) {
  int changed = 0;
  for (const RuleCase& c : rule_cases()) {
    SCOPED_TRACE(c.rule);
    LhsBody body;
    c.build(body);
    EXPECT_EQ(body.order({{c.rule, true}}), c.on);
    EXPECT_EQ(body.order({{c.rule, false}}), c.off);
    changed += std::string(c.on) != c.off ? 1 : 0;
  }
  EXPECT_EQ(changed, static_cast<int>(lhs_rule_table().size()));
  RecordProperty("change_the_schedule", changed);
}

TEST(LhsRulesTest, RulesThatNeedAHintNeverDecideWithoutOne) {
  std::string names;
  for (const RuleCase& c : hinted_cases()) {
    if (std::string(c.rule) == "force_delay_over_memory_pressure") continue;
    SCOPED_TRACE(c.rule);
    LhsBody body;
    c.build(body);
    body.options.hints.clear();
    EXPECT_EQ(body.order({{c.rule, true}}), body.order({{c.rule, false}}));
    names += (names.empty() ? "" : ", ") + std::string(c.rule);
  }
  size_t count = 0;
  for (const LhsRuleInfo& rule : lhs_rule_table())
    if (rule.needs[0] != '\0') {
      ++count;
      EXPECT_THAT(names, testing::HasSubstr(rule.name));
    }
  EXPECT_EQ(count, hinted_cases().size() - 1);
  RecordProperty("need_a_hint", names);
}

// A limit of one done at a time: the second write waits until the first has started.
TEST(LhsLimitsTest, BoundWhatIsOpen) {
  LhsBody body;
  body.write("v", 0);
  body.write("w", 0);
  EXPECT_EQ(body.order({}), "<v <w v> w>");
  body.options.limits.copies = 1;
  EXPECT_EQ(body.order({}), "<v v> <w w>");
  LhsBody two;
  two.gather("f", 5);
  two.gather("g", 5);
  EXPECT_EQ(two.order({}), "<f f> <g g>");
  two.options.limits.collectives = 0;
  EXPECT_EQ(two.order({}), "<f <g f> g>");
}

}  // namespace
}  // namespace spillway
