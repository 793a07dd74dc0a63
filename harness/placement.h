// Greedy interval packing: one turn after the other, each block in a gap below or on top.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "harness/packing.h"

namespace spillway {

enum class Fit : uint8_t { first, best };  // the lowest gap, or the tightest
using TurnOrder = std::vector<int>;        // of blocks, by index

// A block that has its place.
struct Placed {
  int64_t bottom = 0, top = 0;
  int begin = 0, end = 0;
};

// Blocks to be packed above others that stay where they are.
struct PackingTask {
  std::vector<Block> blocks;
  std::vector<Placed> below;  // sorted by bottom
  int busiest = 0;            // position of highest load
};

struct Placement {
  TurnOrder order;
  Fit fit = Fit::first;
  std::vector<int64_t> offset;  // per block of the task; of those in `order`
  int64_t height = 0;
};

// The blocks in the turns of `order`. Stops as soon as the height exceeds `limit`.
Placement place(const PackingTask& task, TurnOrder order, Fit fit,
                int64_t limit = std::numeric_limits<int64_t>::max());

// Keys by which blocks take turns, largest first.
using BlockKey = double (*)(const Block&);
double by_size(const Block& block);
double by_life(const Block& block);
double by_area(const Block& block);
double by_begin(const Block& block);
double by_early_begin(const Block& block);
double by_end(const Block& block);

struct TurnRule {
  BlockKey first = nullptr, then = nullptr;
  // The blocks alive at a position of highest load come first: they must lie without a hole.
  bool busiest_first = false;
  Fit fit = Fit::first;
};
TurnOrder order_by(const PackingTask& task, const TurnRule& rule);

}  // namespace spillway
