// Greedy interval packing, part by part, with a bounded local search over the order of placement.
#include "harness/packing.h"

#include <algorithm>
#include <numeric>

#include "harness/placement.h"

namespace spillway {
namespace {

constexpr int search_tries = 16000;  // for one part; bounds a plan's time
constexpr int patient_tries = 100;  // after these, twice the slack is low enough
constexpr int stale_tries = 60;     // without progress, before a restart elsewhere

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

// The first is low enough in 98 of 100 parts of the shipped sweeps.
constexpr TurnRule rules[] = {
    {by_area, by_size, true, Fit::first},        {by_end, by_begin, true, Fit::best},
    {by_size, by_early_begin, true, Fit::best},  {by_early_begin, by_area, true, Fit::first},
    {by_size, by_life, true, Fit::first},        {by_size, by_life, false, Fit::first},
    {by_life, by_early_begin, true, Fit::first},
};

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

// Looks for the order of a task's large blocks; small ones take their turns behind them.
class OrderSearch {
 public:
  OrderSearch(const PackingTask& task, std::vector<Placement> starts, int64_t load, int64_t slack)
      : task_(task), load_(load), slack_(slack), starts_(std::move(starts)) {
    const auto lower = [](const Placement& a, const Placement& b) { return a.height < b.height; };
    best_ = *std::min_element(starts_.begin(), starts_.end(), lower);
    const auto large = [&](int id) {
      return task.blocks[static_cast<size_t>(id)].size > 2 * slack;
    };
    for (const int id : order_by(task, rules[0]))
      if (!large(id)) small_.push_back(id);
    for (Placement& start : starts_) {
      std::erase_if(start.order, [&](int id) { return !large(id); });
      start = place(task, std::move(start.order), start.fit);
    }
    std::stable_sort(starts_.begin(), starts_.end(), lower);
  }

  Placement run() {
    size_t start = 0;
    Placement current = starts_[start];
    int64_t lowest = current.height;
    finish(current);
    if (current.order.empty()) return best_;
    for (int tries = 0, stale = 0; tries < search_tries && !low_enough(tries); ++tries) {
      Placement next = place(task_, vary(current), current.fit, current.height);
      stale = next.height < current.height ? 0 : stale + 1;
      if (next.height <= current.height) {
        current = std::move(next);
        if (current.height < lowest || current.height <= load_ + slack_) finish(current);
      }
      lowest = std::min(lowest, current.height);
      if (stale < stale_tries) continue;
      stale = 0;
      current = starts_[++start % starts_.size()];
    }
    return best_;
  }

 private:
  bool low_enough(int tries) const {
    return best_.height <= load_ + (tries < patient_tries ? slack_ : 2 * slack_);
  }

  void finish(const Placement& large) {
    TurnOrder order = large.order;
    order.insert(order.end(), small_.begin(), small_.end());
    Placement all = place(task_, std::move(order), large.fit);
    if (all.height < best_.height) best_ = std::move(all);
  }

  // Turn of a block that ends at the top, or of one that lives beside it.
  size_t pick_turn(const Placement& from) {
    const auto choose = [&](const auto& fits) {
      turns_.clear();
      for (size_t turn = 0; turn < from.order.size(); ++turn)
        if (fits(static_cast<size_t>(from.order[turn]))) turns_.push_back(turn);
      return turns_[sequence_.below(turns_.size())];
    };
    const size_t turn =
        choose([&](size_t id) { return from.offset[id] + task_.blocks[id].size == from.height; });
    if (sequence_.below(2) == 0) return turn;
    const Block& top = task_.blocks[static_cast<size_t>(from.order[turn])];
    return choose([&](size_t id) {
      return task_.blocks[id].begin <= top.end && top.begin <= task_.blocks[id].end;
    });
  }

  // The block takes an earlier turn.
  TurnOrder vary(const Placement& from) {
    const size_t turn = pick_turn(from);
    TurnOrder order = from.order;
    const auto at = order.begin() + static_cast<std::ptrdiff_t>(turn);
    const auto to = order.begin() + static_cast<std::ptrdiff_t>(sequence_.below(turn + 1));
    std::rotate(to, at, at + 1);
    return order;
  }

  const PackingTask& task_;
  int64_t load_, slack_;
  std::vector<Placement> starts_;  // of large blocks alone, lowest first
  TurnOrder small_;
  Placement best_;  // of all blocks
  Sequence sequence_;
  std::vector<size_t> turns_;  // kept for its memory
};

Placement pack_task(const PackingTask& task, int64_t load, int64_t slack) {
  std::vector<Placement> tried;
  for (const TurnRule& rule : rules) {
    tried.push_back(place(task, order_by(task, rule), rule.fit));
    if (tried.back().height <= load + slack) return std::move(tried.back());
  }
  return OrderSearch(task, std::move(tried), load, slack).run();
}

// Blocks of one part, or those that reach across.
struct Group {
  PackingTask task;
  std::vector<int> ids;  // of its blocks
};

class Packer {
 public:
  Packer(const std::vector<Block>& blocks, const PackingGoal& goal)
      : goal_(goal), loads_(loads_of(blocks)), parts_(std::max<size_t>(1, goal.cuts.size())) {
    load_ = *std::max_element(loads_.begin(), loads_.end());
    across_.task.busiest = busiest(0, loads_.size());
    for (size_t part = 0; part < parts_.size(); ++part) {
      const bool last = part + 1 >= goal.cuts.size();
      parts_[part].task.busiest =
          busiest(part == 0 ? 0 : static_cast<size_t>(goal.cuts[part]),
                  last ? loads_.size() : static_cast<size_t>(goal.cuts[part + 1]));
    }
    for (size_t id = 0; id < blocks.size(); ++id) {
      const size_t part = part_at(blocks[id].begin);
      Group& group = part == part_at(blocks[id].end) ? parts_[part] : across_;
      group.task.blocks.push_back(blocks[id]);
      group.ids.push_back(static_cast<int>(id));
    }
    result_.offset.resize(blocks.size());
  }

  Packing run() {
    settle(across_);
    std::vector<Placed> below = placed_blocks(across_);
    for (Group& part : parts_) {
      if (part.ids.empty()) continue;
      part.task.below = below;
      settle(part);
    }
    return std::move(result_);
  }

 private:
  int busiest(size_t begin, size_t end) const {
    const auto first = loads_.begin();
    return static_cast<int>(std::max_element(first + static_cast<std::ptrdiff_t>(begin),
                                             first + static_cast<std::ptrdiff_t>(end)) -
                            first);
  }

  size_t part_at(int position) const {
    const auto after = std::upper_bound(goal_.cuts.begin(), goal_.cuts.end(), position);
    return static_cast<size_t>(std::max<std::ptrdiff_t>(0, after - goal_.cuts.begin() - 1));
  }

  void settle(const Group& group) {
    if (group.ids.empty()) return;
    const Placement placement = pack_task(group.task, load_, goal_.slack);
    result_.height = std::max(result_.height, placement.height);
    for (size_t k = 0; k < group.ids.size(); ++k)
      result_.offset[static_cast<size_t>(group.ids[k])] = placement.offset[k];
  }

  std::vector<Placed> placed_blocks(const Group& group) const {
    std::vector<Placed> placed;
    for (size_t k = 0; k < group.ids.size(); ++k) {
      const Block& block = group.task.blocks[k];
      const int64_t bottom = result_.offset[static_cast<size_t>(group.ids[k])];
      placed.push_back({bottom, bottom + block.size, block.begin, block.end});
    }
    std::sort(placed.begin(), placed.end(),
              [](const Placed& a, const Placed& b) { return a.bottom < b.bottom; });
    return placed;
  }

  const PackingGoal& goal_;
  std::vector<int64_t> loads_;
  int64_t load_ = 0;
  Group across_;
  std::vector<Group> parts_;
  Packing result_;
};

}  // namespace

int64_t load_of(const std::vector<Block>& blocks) {
  const std::vector<int64_t> loads = loads_of(blocks);
  return loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
}

Packing pack(const std::vector<Block>& blocks, const PackingGoal& goal) {
  if (blocks.empty()) return {};
  return Packer(blocks, goal).run();
}

}  // namespace spillway
