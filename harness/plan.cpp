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

struct Timeline {
  std::vector<LivePoint> points;  // bytes still empty
  std::vector<Life> lives;        // per tensor
};

// A segment without compute steps still is one position: step tensors live through it.
void add_segment(const SegmentSchedule& segment, int s, Timeline& timeline) {
  const auto& steps = segment.lanes[index_of(Lane::compute)];
  const int first = static_cast<int>(timeline.points.size());
  const int count = std::max(1, static_cast<int>(steps.size()));
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
int64_t stack_up(const Program& program, const std::vector<TensorId>& tensors, int64_t base,
                 Plan& plan) {
  for (const TensorId id : tensors) {
    plan.offset[static_cast<size_t>(id)] = base;
    base += align_up(program.at(id).bytes());
  }
  return base;
}

void place_host(const Program& program, const Timeline& timeline, Plan& plan) {
  std::vector<TensorId> tensors;
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    if (program.tensors[id].space != Space::host || timeline.lives[id].begin < 0) continue;
    tensors.push_back(static_cast<TensorId>(id));
    plan.host_bytes += program.tensors[id].bytes();
  }
  plan.host_arena_bytes = stack_up(program, tensors, 0, plan);
}

void place_device(const Program& program, const Timeline& timeline, Plan& plan) {
  std::vector<TensorId> persistent, moving;
  std::vector<Block> blocks;
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    const Tensor& tensor = program.tensors[id];
    const auto [begin, end] = timeline.lives[id];
    if (tensor.space != Space::device || begin < 0) continue;
    const bool stays = tensor.extent == Extent::persistent;
    (stays ? persistent : moving).push_back(static_cast<TensorId>(id));
    if (!stays) blocks.push_back({align_up(tensor.bytes()), begin, end});
    if (stays || (tensor.extent == Extent::step && tensor.role == Role::kept)) {
      plan.static_bytes += tensor.bytes();
    }
  }
  const int64_t base = stack_up(program, persistent, 0, plan);
  const Packing packing = pack(blocks);
  for (size_t k = 0; k < moving.size(); ++k) {
    plan.offset[static_cast<size_t>(moving[k])] = base + packing.offset[k];
  }
  plan.device_bytes = base + packing.height;
}

int64_t sum_of(const LivePoint& point) {
  return std::accumulate(point.bytes.begin(), point.bytes.end(), int64_t{0});
}

void fill_curve(const Program& program, Timeline timeline, Plan& plan) {
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    const Tensor& tensor = program.tensors[id];
    const auto [begin, end] = timeline.lives[id];
    if (tensor.space != Space::device || begin < 0) continue;
    for (int p = begin; p <= end; ++p) {
      timeline.points[static_cast<size_t>(p)].bytes[static_cast<size_t>(tensor.role)] +=
          tensor.bytes();
    }
  }
  plan.curve = std::move(timeline.points);
}

void describe_peak(const Program& program, const std::vector<Life>& lives, Plan& plan) {
  if (plan.curve.empty()) return;
  const auto highest = std::max_element(
      plan.curve.begin(), plan.curve.end(),
      [](const LivePoint& a, const LivePoint& b) { return sum_of(a) < sum_of(b); });
  const int peak = static_cast<int>(highest - plan.curve.begin());
  plan.peak_by_role = highest->bytes;
  plan.live_peak = sum_of(*highest);
  plan.holes = plan.device_bytes - plan.live_peak;
  std::vector<TensorId>& alive = plan.largest;
  for (size_t id = 0; id < lives.size(); ++id) {
    const bool on_device = program.tensors[id].space == Space::device;
    if (on_device && lives[id].begin >= 0 && lives[id].begin <= peak && peak <= lives[id].end) {
      alive.push_back(static_cast<TensorId>(id));
      if (program.tensors[id].ragged) plan.peak_ragged_bytes += program.tensors[id].bytes();
    }
  }
  std::stable_sort(alive.begin(), alive.end(), [&](TensorId a, TensorId b) {
    return program.at(a).bytes() > program.at(b).bytes();
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
  describe_peak(schedule.program, timeline.lives, plan);
  return plan;
}

}  // namespace spillway
