#include "harness/layout.h"

#include <algorithm>

#include "harness/error.h"

namespace spillway {
namespace {

// Host bytes come after those of the device.
int64_t base_of(const Plan& plan, const Tensor& tensor) {
  return tensor.space == Space::host ? plan.device_bytes : 0;
}

struct Range {
  int64_t begin = 0, end = 0;  // bytes
};

// Walks the compute lane once through every body, with the bytes of what is alive.
class LifeWalk {
 public:
  LifeWalk(const Schedule& schedule, const Plan& plan)
      : program_(schedule.program), plan_(plan), state_(program_.tensors.size(), State::not_yet) {
    for (size_t id = 0; id < state_.size(); ++id)
      if (program_.tensors[id].extent == Extent::persistent) come(static_cast<TensorId>(id));
    for (const SegmentSchedule& segment : schedule.segments)
      walk(segment);
  }
  bool apart() const { return apart_; }

 private:
  enum class State : uint8_t { not_yet, alive, gone };

  void walk(const SegmentSchedule& segment) {
    for (const TensorId id : segment.enter_allocate)
      come(id, Extent::step);
    for (const LaneStep& step : segment.lanes[index_of(Lane::compute)]) {
      for (const TensorId id : step.allocate)
        come(id, Extent::local);
      for (const TensorId id : step.release)
        go(id, Extent::local);
    }
    apart_ = apart_ && locals_ == 0 && !others_mark(segment);
    for (const TensorId id : segment.exit_release)
      go(id, Extent::step);
  }

  // Only the compute lane may.
  static bool others_mark(const SegmentSchedule& segment) {
    for (size_t lane = 0; lane < lane_count; ++lane) {
      if (lane == index_of(Lane::compute)) continue;
      for (const LaneStep& step : segment.lanes[lane])
        if (!step.allocate.empty() || !step.release.empty()) return true;
    }
    return false;
  }

  void come(TensorId id, Extent extent) {
    apart_ = apart_ && program_.at(id).extent == extent;
    locals_ += extent == Extent::local;
    come(id);
  }

  void come(TensorId id) {
    State& state = state_[static_cast<size_t>(id)];
    apart_ = apart_ && state == State::not_yet;
    state = State::alive;
    const Range range = range_of_tensor(id);
    const auto above = find(range);
    const bool free = (above == in_use_.end() || range.end <= above->begin) &&
                      (above == in_use_.begin() || std::prev(above)->end <= range.begin);
    apart_ = apart_ && free;
    if (apart_) in_use_.insert(above, range);
  }

  void go(TensorId id, Extent extent) {
    State& state = state_[static_cast<size_t>(id)];
    apart_ = apart_ && state == State::alive && program_.at(id).extent == extent;
    state = State::gone;
    locals_ -= extent == Extent::local;
    if (apart_) in_use_.erase(find(range_of_tensor(id)));
  }

  Range range_of_tensor(TensorId id) const {
    const Tensor& tensor = program_.at(id);
    const int64_t begin = base_of(plan_, tensor) + plan_.offset[static_cast<size_t>(id)];
    return {begin, begin + tensor.bytes()};
  }

  std::vector<Range>::iterator find(const Range& range) {
    return std::lower_bound(in_use_.begin(), in_use_.end(), range,
                            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  }

  const Program& program_;
  const Plan& plan_;
  std::vector<State> state_;
  std::vector<Range> in_use_;  // in the order of their addresses
  int locals_ = 0;             // alive
  bool apart_ = true;
};

}  // namespace

std::optional<std::string> misplaced(const Program& program, const Plan& plan) {
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    const Tensor& tensor = program.tensors[id];
    const int64_t offset = plan.offset[id];
    if (offset == -1) continue;  // never live
    const bool host = tensor.space == Space::host;
    const int64_t capacity = host ? plan.host_arena_bytes : plan.device_bytes;
    if (offset < 0 || offset + tensor.bytes() > capacity)
      return text("tensor \"", tensor.name, "\" at bytes [", offset, ", ", offset + tensor.bytes(),
                  ") of a ", host ? "host" : "device", " arena of ", capacity);
  }
  return std::nullopt;
}

bool alive_apart(const Schedule& schedule, const Plan& plan) {
  return LifeWalk(schedule, plan).apart();
}

std::vector<Pieces> pieces_apart(const Parts& parts) {
  std::vector<Pieces> pieces(parts.slice.size());
  for (size_t p = 0; p < pieces.size(); ++p)
    pieces[p] = {static_cast<int>(p), static_cast<int>(p) + 1};
  return pieces;
}

std::vector<Pieces> pieces_shared(const Program& program, const Plan& plan, const Parts& parts) {
  std::vector<Range> ranges(parts.slice.size());
  std::vector<int64_t> borders;
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    if (plan.offset[id] == -1) continue;
    const Tensor& tensor = program.tensors[id];
    const int64_t begin = base_of(plan, tensor) + plan.offset[id], bytes = tensor.slice_bytes();
    for (int p = parts.first[id]; p < parts.first[id + 1]; ++p) {
      ranges[index_of(p)] = {
          begin + parts.slice[index_of(p)] * bytes,
          begin + parts.end_slice(program, static_cast<TensorId>(id), p) * bytes};
      borders.push_back(ranges[index_of(p)].begin);
    }
    borders.push_back(begin + tensor.bytes());
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  const auto piece_at = [&](int64_t border) {
    return static_cast<int>(std::lower_bound(borders.begin(), borders.end(), border) -
                            borders.begin());
  };
  std::vector<Pieces> pieces;
  for (const Range& range : ranges)
    pieces.push_back({piece_at(range.begin), piece_at(range.end)});
  return pieces;
}

}  // namespace spillway
