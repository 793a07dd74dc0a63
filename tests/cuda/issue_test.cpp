// The order in which lane steps go to their streams.
#include "harness/cuda/issue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_program.h"

namespace spillway {
namespace {

using testing::ElementsAre;

constexpr Issue on(Lane lane, int step) { return {lane, step}; }

TEST(IssueOrder, ACopyComesAsSoonAsItsStartWasPassed) {
  SegmentSchedule segment;
  auto& compute = segment.lanes[index_of(Lane::compute)];
  compute.resize(4);
  compute[1].kind = StepKind::start;
  compute[3].kind = StepKind::done;
  compute[3].waits = {{Lane::d2h, 0}};
  auto& d2h = segment.lanes[index_of(Lane::d2h)];
  d2h.resize(1);
  d2h[0].waits = {{Lane::compute, 1}};
  EXPECT_THAT(issue_order(segment),
              ElementsAre(on(Lane::compute, 0), on(Lane::compute, 1), on(Lane::d2h, 0),
                          on(Lane::compute, 2), on(Lane::compute, 3)));
  EXPECT_THAT(awaited_steps(segment), ElementsAre(ElementsAre(false, true, false, false),
                                                  ElementsAre(true), ElementsAre(), ElementsAre()));
}

TEST(IssueOrder, LanesThatWaitForEachOtherAreRefused) {
  SegmentSchedule segment;
  segment.lanes[0].resize(1);
  segment.lanes[1].resize(1);
  segment.lanes[0][0].waits = {{Lane::d2h, 0}};
  segment.lanes[1][0].waits = {{Lane::compute, 0}};
  EXPECT_THROW(issue_order(segment), std::logic_error);
}

// Nobody waits for what has not been issued, lanes keep their order, nothing is left out.
TEST(IssueOrder, IsOneThatEveryWaitAgreesWith) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    for (const NamedProgram& named : tiny_programs(3)) {
      for (const SegmentSchedule& segment : random_schedule(named.program, seed).segments) {
        std::array<int, lane_count> issued{};
        for (const Issue& next : issue_order(segment)) {
          const size_t lane = index_of(next.lane);
          EXPECT_EQ(next.step, issued[lane]++);
          for (const Wait& wait : segment.lanes[lane][index_of(next.step)].waits)
            EXPECT_LT(wait.step, issued[index_of(wait.on)]);
        }
        for (size_t lane = 0; lane < lane_count; ++lane)
          EXPECT_EQ(static_cast<size_t>(issued[lane]), segment.lanes[lane].size());
      }
    }
  }
}

}  // namespace
}  // namespace spillway
