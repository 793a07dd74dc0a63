// Greedy interval packing with a bounded local search over the order of placement.
#include "harness/packing.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace spillway {
namespace {

using Order = std::vector<int>;

constexpr int64_t search_visits = 100'000'000;  // of one block by another; bounds a plan's time
constexpr int stale_tries = 100;                // without progress, before a restart elsewhere
constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();
enum class Fit { first, best };

const Block& block_of(const std::vector<Block>& blocks, int id) {
  return blocks[static_cast<size_t>(id)];
}

// Sum of sizes alive, per position.
std::vector<int64_t> loads_of(const std::vector<Block>& blocks) {
  int last = -1;
  for (const Block& block : blocks)
    last = std::max(last, block.end);
  std::vector<int64_t> loads(static_cast<size_t>(last) + 2);
  for (const Block& block : blocks) {
    loads[static_cast<size_t>(block.begin)] += block.size;
    loads[static_cast<size_t>(block.end) + 1] -= block.size;
  }
  std::partial_sum(loads.begin(), loads.end(), loads.begin());
  return loads;
}

int busiest_position(const std::vector<Block>& blocks) {
  const std::vector<int64_t> loads = loads_of(blocks);
  return static_cast<int>(std::max_element(loads.begin(), loads.end()) - loads.begin());
}

// Lowest gap (first) or tightest gap (best) between the placed blocks whose lives meet this one's.
// `placed` is sorted by offset.
int64_t find_offset(const std::vector<Block>& blocks, const Packing& packing, const Order& placed,
                    const Block& block, Fit fit) {
  int64_t top = 0, best = -1, best_gap = 0;
  for (const int id : placed) {
    const Block& other = block_of(blocks, id);
    if (other.end < block.begin || block.end < other.begin) continue;
    const int64_t offset = packing.offset[static_cast<size_t>(id)];
    const int64_t gap = offset - top;
    if (gap >= block.size && (best < 0 || gap < best_gap)) {
      if (fit == Fit::first) return top;
      best = top;
      best_gap = gap;
    }
    top = std::max(top, offset + other.size);
  }
  return best >= 0 ? best : top;
}

struct Placement : Packing {
  int64_t visits = 0;  // the time it took, in a unit that does not depend on the machine
};

// Stops as soon as the height exceeds `limit`.
Placement place(const std::vector<Block>& blocks, const Order& order, Fit fit, int64_t limit) {
  Placement packing;
  packing.offset.assign(blocks.size(), 0);
  Order placed;
  placed.reserve(order.size());
  for (const int id : order) {
    const Block& block = block_of(blocks, id);
    packing.visits += static_cast<int64_t>(placed.size()) + 1;
    const int64_t offset = find_offset(blocks, packing, placed, block, fit);
    packing.offset[static_cast<size_t>(id)] = offset;
    packing.height = std::max(packing.height, offset + block.size);
    if (packing.height > limit) break;
    const auto higher = [&](int64_t value, int other) {
      return value < packing.offset[static_cast<size_t>(other)];
    };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset, higher), id);
  }
  return packing;
}

// Keys by which blocks take turns, largest first.
double by_size(const Block& b) { return static_cast<double>(b.size); }
double by_life(const Block& b) { return b.end - b.begin; }
double by_area(const Block& b) { return static_cast<double>(b.size) * (b.end - b.begin + 1); }
double by_begin(const Block& b) { return -b.begin; }
double by_end(const Block& b) { return b.end; }
constexpr double (*order_keys[])(const Block&) = {by_size, by_life, by_area, by_begin, by_end};

Order order_by(const std::vector<Block>& blocks, double (*key)(const Block&)) {
  Order order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const Block &x = block_of(blocks, a), &y = block_of(blocks, b);
    return key(x) != key(y) ? key(x) > key(y) : x.size > y.size;
  });
  return order;
}

// The blocks alive at a position of highest load come first: they must lie without a hole.
Order critical_first(const std::vector<Block>& blocks, Order order) {
  const int position = busiest_position(blocks);
  std::stable_partition(order.begin(), order.end(), [&](int id) {
    const Block& block = block_of(blocks, id);
    return block.begin <= position && position <= block.end;
  });
  return order;
}

// A fixed sequence, so that plans repeat: Knuth's MMIX linear congruential generator.
class Sequence {
 public:
  size_t below(size_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>((state_ >> 33) % bound);
  }

 private:
  uint64_t state_ = 1;
};

struct Candidate {
  Placement packing;
  Order order;
  Fit fit = Fit::first;
};

// Turn of a block that ends at the top, or of one that lives beside it.
size_t pick_turn(const std::vector<Block>& blocks, const Candidate& from, Sequence& sequence) {
  const auto choose = [&](const auto& fits) {
    std::vector<size_t> turns;
    for (size_t turn = 0; turn < from.order.size(); ++turn) {
      if (fits(static_cast<size_t>(from.order[turn]))) turns.push_back(turn);
    }
    return turns[sequence.below(turns.size())];
  };
  const size_t turn = choose(
      [&](size_t id) { return from.packing.offset[id] + blocks[id].size == from.packing.height; });
  if (sequence.below(2) == 0) return turn;
  const Block& top = block_of(blocks, from.order[turn]);
  return choose(
      [&](size_t id) { return blocks[id].begin <= top.end && top.begin <= blocks[id].end; });
}

// The block takes an earlier turn.
Order vary(const std::vector<Block>& blocks, const Candidate& from, Sequence& sequence) {
  const size_t turn = pick_turn(blocks, from, sequence);
  Order order = from.order;
  const auto at = order.begin() + static_cast<std::ptrdiff_t>(turn);
  const auto to = order.begin() + static_cast<std::ptrdiff_t>(sequence.below(turn + 1));
  std::rotate(to, at, at + 1);
  return order;
}

Packing search(const std::vector<Block>& blocks, std::vector<Candidate> starts, int64_t load) {
  const auto lower = [](const Candidate& a, const Candidate& b) {
    return a.packing.height < b.packing.height;
  };
  std::stable_sort(starts.begin(), starts.end(), lower);
  Packing best = starts.front().packing;
  Sequence sequence;
  size_t start = 0;
  Candidate current = starts[start];
  for (int64_t visits = 0, stale = 0; visits < search_visits && best.height > load;) {
    Candidate next{{}, vary(blocks, current, sequence), current.fit};
    next.packing = place(blocks, next.order, next.fit, current.packing.height);
    visits += next.packing.visits;
    stale = next.packing.height < current.packing.height ? 0 : stale + 1;
    if (next.packing.height <= current.packing.height) current = std::move(next);
    if (current.packing.height < best.height) best = current.packing;
    if (stale < stale_tries) continue;
    stale = 0;
    current = starts[++start % starts.size()];
  }
  return best;
}

}  // namespace

int64_t load_of(const std::vector<Block>& blocks) {
  const std::vector<int64_t> loads = loads_of(blocks);
  return loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
}

Packing pack(const std::vector<Block>& blocks) {
  if (blocks.empty()) return {};
  const int64_t load = load_of(blocks);
  std::vector<Candidate> candidates;
  for (const auto key : order_keys) {
    const Order order = order_by(blocks, key);
    for (const Order& turn : {order, critical_first(blocks, order)}) {
      for (const Fit fit : {Fit::first, Fit::best}) {
        Candidate candidate{place(blocks, turn, fit, unlimited), turn, fit};
        if (candidate.packing.height == load) return candidate.packing;
        candidates.push_back(std::move(candidate));
      }
    }
  }
  return search(blocks, std::move(candidates), load);
}

}  // namespace spillway
