// Dynamic storage allocation as a pure problem: blocks with a size and a life, one address space.
#pragma once

#include <cstdint>
#include <vector>

namespace spillway {

struct Block {
  int64_t size = 0;        // units of the caller's alignment or bytes: never rounded here
  int begin = 0, end = 0;  // first and last position alive
};

struct Packing {
  std::vector<int64_t> offset;  // per block; blocks alive at one position do not overlap
  int64_t height = 0;           // largest offset + size
};

struct PackingGoal {
  // Ascending positions at which a part of the timeline begins that few blocks reach across; the
  // first part begins at 0. Blocks within one part do not meet those of another.
  std::vector<int> cuts;
  int64_t slack = 0;  // a height that is so near to the load is low enough
};

// Largest sum of sizes alive at one position; no packing is lower.
int64_t load_of(const std::vector<Block>& blocks);

// Deterministic. Blocks that reach across cuts lie at the bottom; above them each part is packed by
// itself: greedily under several orders, until one is low enough, else the best order is improved
// by moving what sticks out, or lives beside it, to an earlier turn, a fixed number of times.
Packing pack(const std::vector<Block>& blocks, const PackingGoal& goal = {});

}  // namespace spillway
