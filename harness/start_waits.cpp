// Waits of host copies beyond "my start has been passed".
#include "harness/start_waits.h"

#include <algorithm>
#include <array>

namespace spillway {
namespace {

constexpr std::array copy_lanes = {Lane::d2h, Lane::h2d};

struct StepPlaces {
  std::vector<int> on_lane;  // per op: its step on its own lane
  // Per op, steps of compute: at which what its start brings into being exists; at which compute,
  // past its done, has read what it wrote (confirmed_at()). -1: none.
  std::vector<int> allocated, confirmed;
};

StepPlaces places_of(const Segment& segment, const SegmentSchedule& schedule) {
  const size_t ops = segment.ops.size();
  StepPlaces places{std::vector<int>(ops, -1), std::vector<int>(ops, -1),
                    std::vector<int>(ops, -1)};
  for (const std::vector<LaneStep>& lane : schedule.lanes)
    for (size_t k = 0; k < lane.size(); ++k)
      if (lane[k].kind == StepKind::run) places.on_lane[index_of(lane[k].op)] = static_cast<int>(k);
  std::vector<int> made_at;  // per tensor
  const std::vector<LaneStep>& steps = schedule.lanes[index_of(Lane::compute)];
  for (size_t k = 0; k < steps.size(); ++k) {
    for (const TensorId id : steps[k].allocate) {
      if (made_at.size() <= index_of(id)) made_at.resize(index_of(id) + 1, -1);
      made_at[index_of(id)] = static_cast<int>(k);
    }
    for (const int op : confirmed_at(steps, k))
      places.confirmed[index_of(op)] = static_cast<int>(k);
  }
  for (size_t op = 0; op < ops; ++op)
    for (const Operand& output : segment.ops[op].outputs)
      if (index_of(output.tensor) < made_at.size())
        places.allocated[op] = std::max(places.allocated[op], made_at[index_of(output.tensor)]);
  return places;
}

bool writes_what(const Op& a, const Op& b) {
  for (const Operand& x : a.outputs)
    for (const Operand& y : b.outputs)
      if (x.tensor == y.tensor) return true;
  return false;
}

// Steps of the other lanes, one of each at most, the latest.
std::vector<Wait> producers_of(int op, Lane own, const Segment& segment,
                               const std::vector<int>& before, const StepPlaces& places) {
  std::array<int, lane_count> last;
  last.fill(-1);
  const auto wait_for = [&](Lane lane, int step) {
    last[index_of(lane)] = std::max(last[index_of(lane)], step);
  };
  // Whatever else may touch these bytes was over when this iteration began.
  wait_for(Lane::compute, std::max(0, places.allocated[index_of(op)]));
  for (const int earlier : before) {
    const Op& other = segment.ops[index_of(earlier)];
    wait_for(lane_of(other), places.on_lane[index_of(earlier)]);
    // What is written over has not only been written but also been read by the done of that.
    if (writes_what(segment.ops[index_of(op)], other))
      wait_for(Lane::compute, places.confirmed[index_of(earlier)]);
  }
  std::vector<Wait> waits;
  for (size_t lane = 0; lane < lane_count; ++lane)
    if (last[lane] >= 0 && static_cast<Lane>(lane) != own)
      waits.push_back({static_cast<Lane>(lane), last[lane]});
  return waits;
}

// Streams that XLA deals asynchronous compute and host copies out to, in turn, in the order its
// instructions are listed, whatever their schedule: number_of_compute_execution_streams of
// xla/service/gpu/execution_stream_assignment.{h,cc}. Its count goes on from one computation to the
// next; which copies of a body share a stream does not depend on where it begins.
constexpr int side_streams = 4;

}  // namespace

void wait_for_producers(const Segment& segment, const std::vector<std::vector<int>>& before,
                        SegmentSchedule& schedule) {
  const StepPlaces places = places_of(segment, schedule);
  for (const Lane lane : copy_lanes)
    for (LaneStep& step : schedule.lanes[index_of(lane)])
      step.waits = producers_of(step.op, lane, segment, before[index_of(step.op)], places);
}

void wait_for_side_streams(const Segment& segment, SegmentSchedule& schedule) {
  std::vector<int> stream(segment.ops.size(), -1);  // per op; -1: no host copy
  int next = 0;
  for (size_t op = 0; op < segment.ops.size(); ++op)
    if (is_host_copy(segment.ops[op])) stream[op] = next++ % side_streams;
  std::array<size_t, lane_count> issued{};
  std::array<Wait, side_streams> last;  // copy of each stream
  last.fill({Lane::compute, -1});
  for (const LaneStep& start : schedule.lanes[index_of(Lane::compute)]) {
    if (start.kind != StepKind::start || stream[index_of(start.op)] < 0) continue;
    const Lane lane = lane_of(segment.ops[index_of(start.op)]);
    const size_t place = issued[index_of(lane)]++;
    Wait& before = last[index_of(stream[index_of(start.op)])];
    if (before.step >= 0 && before.on != lane)  // its own lane is in order already
      schedule.lanes[index_of(lane)][place].waits.push_back(before);
    before = {lane, static_cast<int>(place)};
  }
}

}  // namespace spillway
