// plan_memory(): lifetimes on the compute lane become offsets. Positions are the compute lane's
// steps, each body once: what is local to an iteration is dead at its end, and what lives longer
// lives through the whole segment.
#include "harness/plan.h"

#include <algorithm>
#include <numeric>

#include "harness/packing.h"

namespace spillway {
namespace {

int64_t align_up(int64_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

struct Life {
  int begin = -1, end = -1;  // positions; -1: never live
};

// A plan whose gaps at the peak are no more than this part of what comes and goes is tight enough.
constexpr int64_t slack_part = 200;

struct Timeline {
  std::vector<LivePoint> points;  // bytes still empty
  std::vector<int> firsts;        // per segment, its first position
  std::vector<Life> lives;        // per tensor
  std::vector<int64_t> bytes;     // per tensor
};

// A segment without compute steps still is one position: step tensors live through it.
void add_segment(const SegmentSchedule& segment, int s, Timeline& timeline) {
  const auto& steps = segment.lanes[index_of(Lane::compute)];
  const int first = static_cast<int>(timeline.points.size());
  const int count = std::max(1, static_cast<int>(steps.size()));
  timeline.firsts.push_back(first);
  for (int k = 0; k < count; ++k)
    timeline.points.push_back({s, k, {}});
  const auto life = [&](TensorId id) -> Life& { return timeline.lives[static_cast<size_t>(id)]; };
  for (const TensorId id : segment.enter_allocate)
    life(id).begin = first;
  for (const TensorId id : segment.exit_release)
    life(id).end = first + count - 1;
  for (size_t k = 0; k < steps.size(); ++k) {
    for (const TensorId id : steps[k].allocate)
      life(id).begin = first + static_cast<int>(k);
    for (const TensorId id : steps[k].release)
      life(id).end = first + static_cast<int>(k);
  }
}

Timeline timeline_of(const Schedule& schedule) {
  Timeline timeline;
  timeline.lives.resize(schedule.program.tensors.size());
  timeline.bytes.reserve(schedule.program.tensors.size());
  for (const Tensor& tensor : schedule.program.tensors)
    timeline.bytes.push_back(tensor.bytes());
  for (size_t s = 0; s < schedule.segments.size(); ++s) {
    add_segment(schedule.segments[s], static_cast<int>(s), timeline);
  }
  const int last = static_cast<int>(timeline.points.size()) - 1;
  for (size_t id = 0; id < timeline.lives.size(); ++id) {
    if (schedule.program.tensors[id].extent == Extent::persistent) timeline.lives[id] = {0, last};
  }
  return timeline;
}

// Tensors that never move against each other: one after the other from `base`.
int64_t stack_up(const Timeline& timeline, const std::vector<TensorId>& tensors, int64_t base,
                 Plan& plan) {
  for (const TensorId id : tensors) {
    plan.offset[index_of(id)] = base;
    base += align_up(timeline.bytes[index_of(id)]);
  }
  return base;
}

void place_host(const Program& program, const Timeline& timeline, Plan& plan) {
  std::vector<TensorId> tensors;
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    if (program.tensors[id].space != Space::host || timeline.lives[id].begin < 0) continue;
    tensors.push_back(static_cast<TensorId>(id));
    plan.host_bytes += timeline.bytes[id];
  }
  plan.host_arena_bytes = stack_up(timeline, tensors, 0, plan);
}

void place_device(const Program& program, const Timeline& timeline, Plan& plan) {
  std::vector<TensorId> persistent, moving;
  std::vector<Block> blocks, transient;  // that move, and of these all but stacked residuals
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    const Tensor& tensor = program.tensors[id];
    const auto [begin, end] = timeline.lives[id];
    if (tensor.space != Space::device || begin < 0) continue;
    const bool stays = tensor.extent == Extent::persistent;
    const bool residual = tensor.extent == Extent::step && tensor.role == Role::kept;
    const Block block{align_up(timeline.bytes[id]), begin, end};
    (stays ? persistent : moving).push_back(static_cast<TensorId>(id));
    if (!stays) blocks.push_back(block);
    if (!stays && !residual) transient.push_back(block);
    if (stays || residual) plan.static_bytes += timeline.bytes[id];
  }
  const int64_t base = stack_up(timeline, persistent, 0, plan);
  const Packing packing =
      pack(blocks, {.cuts = timeline.firsts, .slack = load_of(transient) / slack_part});
  for (size_t k = 0; k < moving.size(); ++k)
    plan.offset[index_of(moving[k])] = base + packing.offset[k];
  plan.device_bytes = base + packing.height;
}

int64_t sum_of(const LivePoint& point) {
  return std::accumulate(point.bytes.begin(), point.bytes.end(), int64_t{0});
}

// What comes at each position and has gone at the next, summed up.
void fill_curve(const Program& program, const Timeline& timeline, Plan& plan) {
  std::vector<LivePoint>& points = plan.curve = timeline.points;
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    const Tensor& tensor = program.tensors[id];
    const auto [begin, end] = timeline.lives[id];
    if (tensor.space != Space::device || begin < 0) continue;
    const size_t role = static_cast<size_t>(tensor.role);
    points[index_of(begin)].bytes[role] += timeline.bytes[id];
    if (index_of(end) + 1 < points.size())
      points[index_of(end) + 1].bytes[role] -= timeline.bytes[id];
  }
  for (size_t p = 1; p < points.size(); ++p)
    for (size_t role = 0; role < role_count; ++role)
      points[p].bytes[role] += points[p - 1].bytes[role];
}

void describe_peak(const Program& program, const Timeline& timeline, Plan& plan) {
  if (plan.curve.empty()) return;
  size_t peak = 0;
  for (size_t p = 0; p < plan.curve.size(); ++p) {
    const int64_t live = sum_of(plan.curve[p]);
    if (p > 0 && live <= plan.live_peak) continue;
    plan.live_peak = live;
    peak = p;
  }
  plan.peak_by_role = plan.curve[peak].bytes;
  plan.holes = plan.device_bytes - plan.live_peak;
  std::vector<TensorId>& alive = plan.largest;
  for (size_t id = 0; id < timeline.lives.size(); ++id) {
    const auto [begin, end] = timeline.lives[id];
    if (program.tensors[id].space != Space::device || begin < 0 || index_of(begin) > peak ||
        peak > index_of(end))
      continue;
    alive.push_back(static_cast<TensorId>(id));
    if (program.tensors[id].ragged) plan.peak_ragged_bytes += timeline.bytes[id];
  }
  std::stable_sort(alive.begin(), alive.end(), [&](TensorId a, TensorId b) {
    return timeline.bytes[index_of(a)] > timeline.bytes[index_of(b)];
  });
  if (alive.size() > 5) alive.resize(5);
}

}  // namespace

Plan plan_memory(const Schedule& schedule) {
  const Timeline timeline = timeline_of(schedule);
  Plan plan;
  plan.offset.assign(schedule.program.tensors.size(), -1);
  place_host(schedule.program, timeline, plan);
  place_device(schedule.program, timeline, plan);
  fill_curve(schedule.program, timeline, plan);
  describe_peak(schedule.program, timeline, plan);
  return plan;
}

}  // namespace spillway
