// Interval packing: never overlaps, never above the load by more than promised.
#include "harness/packing.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace spillway {
namespace {

// Checked position by position, not pair by pair.
void expect_sound(const std::vector<Block>& blocks, const Packing& packing) {
  int last = 0;
  int64_t height = 0;
  for (size_t k = 0; k < blocks.size(); ++k) {
    last = std::max(last, blocks[k].end);
    height = std::max(height, packing.offset[k] + blocks[k].size);
    ASSERT_GE(packing.offset[k], 0);
  }
  EXPECT_EQ(packing.height, height);
  for (int position = 0; position <= last; ++position) {
    std::vector<std::pair<int64_t, int64_t>> alive;
    for (size_t k = 0; k < blocks.size(); ++k) {
      if (blocks[k].begin > position || blocks[k].end < position) continue;
      alive.emplace_back(packing.offset[k], packing.offset[k] + blocks[k].size);
    }
    std::sort(alive.begin(), alive.end());
    for (size_t k = 1; k < alive.size(); ++k)
      ASSERT_GE(alive[k].first, alive[k - 1].second);
  }
}

TEST(Packing, EmptyAndSingle) {
  EXPECT_EQ(pack({}).height, 0);
  EXPECT_EQ(pack({{7, 0, 0}}).height, 7);
  EXPECT_EQ(load_of({}), 0);
}

TEST(Packing, LoadIsTheLargestSum) {
  EXPECT_EQ(load_of({{1, 0, 2}, {2, 1, 3}, {4, 3, 3}}), 6);
  EXPECT_EQ(load_of({{5, 0, 0}, {5, 1, 1}}), 5);
}

// First fit by begin leaves a hole here: [0,1] 2, [1,2] 1, [2,3] 2 in a load of 3.
TEST(Packing, FindsTheOnlyTightArrangement) {
  const std::vector<Block> blocks = {{2, 0, 1}, {1, 1, 3}, {2, 2, 3}, {1, 0, 0}};
  const Packing packing = pack(blocks);
  expect_sound(blocks, packing);
  EXPECT_EQ(packing.height, 3);
}

// What training bodies look like: few sizes, mostly short lives, four bodies, some tensors across.
std::vector<Block> training_like(unsigned seed, int per_body) {
  std::mt19937 random(seed);
  const int64_t sizes[] = {8, 8, 8, 26, 26, 1, 64, 2};  // MiB: widths of a layer, logits, norms
  const auto pick = [&](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  constexpr int length = 40;
  std::vector<Block> blocks;
  for (int body = 0; body < 4; ++body) {
    for (int k = 0; k < per_body; ++k) {
      const int begin = pick(length), life = pick(6) == 0 ? pick(length) : 1 + pick(8);
      const int first = body * length;
      blocks.push_back(
          {sizes[pick(8)] << 20, first + begin, first + std::min(length - 1, begin + life)});
    }
  }
  for (int k = 0; k < 10; ++k) {
    const int from = pick(4), to = from + pick(4 - from);
    blocks.push_back({8 << 20, from * length, to * length + length - 1});
  }
  return blocks;
}

TEST(Packing, TrainingLikeBodiesAreWithinAPercentOfTheLoad) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::vector<Block> blocks = training_like(seed, 30);
    const Packing packing = pack(blocks);
    expect_sound(blocks, packing);
    EXPECT_LE(packing.height, load_of(blocks) * 101 / 100) << "seed " << seed;
  }
}

// Cut where the bodies of training_like() begin.
const PackingGoal by_bodies{.cuts = {0, 40, 80, 120}, .slack = 0};

TEST(Packing, PartsAreWithinAPercentOfTheLoadToo) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::vector<Block> blocks = training_like(seed, 60);
    const Packing packing = pack(blocks, by_bodies);
    expect_sound(blocks, packing);
    EXPECT_LE(packing.height, load_of(blocks) * 101 / 100) << "seed " << seed;
  }
}

// 10 lies across both parts; above it 3 and 4 fit beside each other, not on top.
TEST(Packing, WhatReachesAcrossLiesAtTheBottom) {
  const std::vector<Block> blocks = {{3, 0, 4}, {10, 2, 7}, {4, 5, 9}};
  const Packing packing = pack(blocks, {.cuts = {0, 5}, .slack = 0});
  expect_sound(blocks, packing);
  EXPECT_EQ(packing.offset[1], 0);
  EXPECT_EQ(packing.height, 14);
}

TEST(Packing, SlackIsWhatMayBeWasted) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::vector<Block> blocks = training_like(seed, 30);
    const int64_t slack = load_of(blocks) / 20;
    const Packing packing = pack(blocks, {.cuts = by_bodies.cuts, .slack = slack});
    expect_sound(blocks, packing);
    EXPECT_LE(packing.height, load_of(blocks) + slack) << "seed " << seed;
  }
}

TEST(Packing, ArbitrarySizesStaySoundAndNear) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    std::vector<Block> blocks;
    for (int k = 0; k < 80; ++k) {
      const int begin = static_cast<int>(random() % 40);
      blocks.push_back({static_cast<int64_t>(random() % 1000 + 1), begin,
                        begin + static_cast<int>(random() % 12)});
    }
    const Packing packing = pack(blocks);
    expect_sound(blocks, packing);
    EXPECT_LE(packing.height, load_of(blocks) * 110 / 100) << "seed " << seed;
  }
}

TEST(Packing, IsRepeatable) {
  const std::vector<Block> blocks = training_like(3, 60);
  EXPECT_EQ(pack(blocks).offset, pack(blocks).offset);
  EXPECT_EQ(pack(blocks, by_bodies).offset, pack(blocks, by_bodies).offset);
}

}  // namespace
}  // namespace spillway
