// Greedy: a body is short, and its waits form no circle once the race check has passed.
#include "harness/cuda/issue.h"

#include <algorithm>
#include <array>
#include <optional>

#include "harness/error.h"

namespace spillway {
namespace {

using Issued = std::array<int, lane_count>;  // steps of each lane, so far

bool may_issue(const LaneStep& step, const Issued& issued) {
  return std::all_of(step.waits.begin(), step.waits.end(),
                     [&](const Wait& wait) { return wait.step < issued[index_of(wait.on)]; });
}

// The lane whose next step may be issued; compute only where no other has one.
std::optional<Lane> next_lane(const SegmentSchedule& segment, const Issued& issued) {
  for (const Lane other : {Lane::d2h, Lane::h2d, Lane::collective, Lane::compute}) {
    const std::vector<LaneStep>& steps = segment.lanes[index_of(other)];
    const auto at = static_cast<size_t>(issued[index_of(other)]);
    if (at < steps.size() && may_issue(steps[at], issued)) return other;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Issue> issue_order(const SegmentSchedule& segment) {
  size_t total = 0;
  for (const std::vector<LaneStep>& steps : segment.lanes)
    total += steps.size();
  std::vector<Issue> order;
  Issued issued{};
  while (const std::optional<Lane> lane = next_lane(segment, issued))
    order.push_back({*lane, issued[index_of(*lane)]++});
  check(order.size() == total, "lanes wait for each other: ", order.size(), " of ", total,
        " steps of a body can be issued");
  return order;
}

std::vector<std::vector<bool>> awaited_steps(const SegmentSchedule& segment) {
  std::vector<std::vector<bool>> awaited;
  for (const std::vector<LaneStep>& steps : segment.lanes)
    awaited.emplace_back(steps.size(), false);
  for (const std::vector<LaneStep>& steps : segment.lanes)
    for (const LaneStep& step : steps)
      for (const Wait& wait : step.waits)
        awaited[index_of(wait.on)].at(static_cast<size_t>(wait.step)) = true;
  return awaited;
}

}  // namespace spillway
