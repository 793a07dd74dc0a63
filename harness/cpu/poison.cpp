// Poison and redzones. Everything is linear in the bytes that are dead: tests use tiny models.
#include "harness/cpu/poison.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace spillway {
namespace {

constexpr int64_t watched_behind_arena = int64_t{64} << 10;

void fill(std::byte* begin, int64_t bytes) {
  std::memset(begin, std::to_integer<int>(poison_byte), static_cast<size_t>(bytes));
}

// Offset of the first byte that is not poison, or `bytes`.
int64_t first_changed(const std::byte* begin, int64_t bytes) {
  // Equal to itself shifted by one and starting with poison: one pass at the speed of memcmp.
  const auto size = static_cast<size_t>(bytes);
  if (bytes == 0) return 0;
  if (begin[0] == poison_byte && std::memcmp(begin, begin + 1, size - 1) == 0) return bytes;
  return std::find_if(begin, begin + bytes, [](std::byte b) { return b != poison_byte; }) - begin;
}

struct Interval {
  int64_t begin, end;
};

}  // namespace

Poison::Poison(const Arenas& arenas, int64_t device_reserved)
    : arenas_(arenas),
      zones_{{Space::device, arenas.device,
              std::min(device_reserved, arenas.plan->device_bytes + watched_behind_arena)},
             {Space::host, arenas.host, arenas.plan->host_arena_bytes}},
      live_(arenas.program->tensors.size(), false) {
  for (const Zone& zone : zones_) {
    if (zone.bytes > 0) fill(zone.data, zone.bytes);
  }
  for (size_t id = 0; id < live_.size(); ++id) {
    const auto tensor = static_cast<TensorId>(id);
    live_[id] = arenas_.program->at(tensor).extent == Extent::persistent && arenas_.placed(tensor);
  }
}

void Poison::allocate(TensorId id) {
  const Tensor& tensor = arenas_.program->at(id);
  const int64_t begin = arenas_.offset(id);
  examine(zone_of(id), begin, begin + tensor.bytes(), "when " + tensor.name + " was allocated");
  live_[static_cast<size_t>(id)] = true;
}

void Poison::release(TensorId id) {
  fill(arenas_.address(id), arenas_.program->at(id).bytes());
  live_[static_cast<size_t>(id)] = false;
}

void Poison::verify(const std::string& where) {
  for (const Zone& zone : zones_) {
    std::vector<Interval> live;
    for (size_t id = 0; id < live_.size(); ++id) {
      const auto tensor = static_cast<TensorId>(id);
      if (!live_[id] || arenas_.program->at(tensor).space != zone.space) continue;
      const int64_t begin = arenas_.offset(tensor);
      live.push_back({begin, begin + arenas_.program->at(tensor).bytes()});
    }
    std::sort(live.begin(), live.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
    live.push_back({zone.bytes, zone.bytes});
    int64_t checked = 0;
    for (const Interval& interval : live) {
      examine(zone, checked, interval.begin, where);
      checked = std::max(checked, interval.end);
    }
  }
}

void Poison::examine(const Zone& zone, int64_t begin, int64_t end, const std::string& where) {
  if (begin >= end) return;
  const int64_t offset = begin + first_changed(zone.data + begin, end - begin);
  if (offset == end) return;
  if (!violation_) {
    violation_ =
        text("redzone: byte ", offset, " of the ", zone.space == Space::device ? "device" : "host",
             " arena is outside every live tensor and was written (seen ", where,
             "); nearest live tensor: ", nearest_live(zone.space, offset));
  }
  fill(zone.data + begin, end - begin);
}

std::string Poison::nearest_live(Space space, int64_t offset) const {
  std::string nearest = "none";
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t id = 0; id < live_.size(); ++id) {
    const auto tensor_id = static_cast<TensorId>(id);
    const Tensor& tensor = arenas_.program->at(tensor_id);
    if (!live_[id] || tensor.space != space) continue;
    const int64_t begin = arenas_.offset(tensor_id), end = begin + tensor.bytes();
    const int64_t distance = offset < begin ? begin - offset : offset - end + 1;
    if (distance >= least) continue;
    least = distance;
    nearest = text(tensor.name, ", bytes ", begin, " to ", end);
  }
  return nearest;
}

}  // namespace spillway
