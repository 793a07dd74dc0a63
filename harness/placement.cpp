#include "harness/placement.h"

#include <algorithm>

namespace spillway {
namespace {

// Lowest gap (first) or tightest gap (best) between the placed blocks whose lives meet this one's.
// `placed` is sorted by bottom.
int64_t find_offset(const std::vector<Placed>& placed, const Block& block, Fit fit) {
  int64_t top = 0, best = -1, best_gap = 0;
  for (const Placed& other : placed) {
    if (other.end < block.begin || block.end < other.begin) continue;
    const int64_t gap = other.bottom - top;
    if (gap >= block.size && (best < 0 || gap < best_gap)) {
      if (fit == Fit::first) return top;
      best = top;
      best_gap = gap;
    }
    top = std::max(top, other.top);
  }
  return best >= 0 ? best : top;
}

}  // namespace

Placement place(const PackingTask& task, TurnOrder order, Fit fit, int64_t limit) {
  std::vector<Placed> placed;
  placed.reserve(task.below.size() + order.size());
  placed = task.below;
  Placement result{std::move(order), fit, std::vector<int64_t>(task.blocks.size()), 0};
  for (const int id : result.order) {
    const Block& block = task.blocks[static_cast<size_t>(id)];
    const int64_t offset = find_offset(placed, block, fit);
    result.offset[static_cast<size_t>(id)] = offset;
    result.height = std::max(result.height, offset + block.size);
    if (result.height > limit) break;
    const auto higher = [](int64_t value, const Placed& other) { return value < other.bottom; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset, higher),
                  {offset, offset + block.size, block.begin, block.end});
  }
  return result;
}

double by_size(const Block& b) { return static_cast<double>(b.size); }
double by_life(const Block& b) { return b.end - b.begin; }
double by_area(const Block& b) { return static_cast<double>(b.size) * (b.end - b.begin + 1); }
double by_begin(const Block& b) { return b.begin; }
double by_end(const Block& b) { return b.end; }
double by_early_begin(const Block& b) { return -b.begin; }

TurnOrder order_by(const PackingTask& task, const TurnRule& rule) {
  struct Turn {
    bool later = false;
    double first = 0, then = 0;
    int id = 0;
  };
  std::vector<Turn> turns;
  turns.reserve(task.blocks.size());
  for (const Block& block : task.blocks) {
    const bool busy = block.begin <= task.busiest && task.busiest <= block.end;
    turns.push_back({rule.busiest_first && !busy, rule.first(block), rule.then(block),
                     static_cast<int>(turns.size())});
  }
  std::sort(turns.begin(), turns.end(), [](const Turn& a, const Turn& b) {
    if (a.later != b.later) return b.later;
    if (a.first != b.first) return a.first > b.first;
    return a.then != b.then ? a.then > b.then : a.id < b.id;
  });
  TurnOrder order;
  order.reserve(turns.size());
  for (const Turn& turn : turns)
    order.push_back(turn.id);
  return order;
}

}  // namespace spillway
