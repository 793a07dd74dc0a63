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

// Largest sum of sizes alive at one position; no packing is lower.
int64_t load_of(const std::vector<Block>& blocks);

// Deterministic. Greedy placement under several orders, the best of them improved by moving what
// sticks out to an earlier turn, until the height is the load or a fixed number of tries is spent.
Packing pack(const std::vector<Block>& blocks);

}  // namespace spillway
