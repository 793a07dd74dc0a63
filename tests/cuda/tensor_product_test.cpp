// Products by tiles: which tile is which part of the result, and products whose steps, sides and
// groups are not multiples of a tile's.
#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cuda/ops/grouped_matmul.cuh"
#include "harness/error.h"
#include "tests/support/cuda_bodies.h"
#include "tests/support/expect_close.h"
#include "tests/support/fibres.h"

namespace spillway {
namespace {

TEST(TileGrid, PlacesEveryTileOnce) {
  for (const TileGrid grid : {TileGrid{1, 1}, {16, 3}, {17, 5}, {40, 2}, {3, 50}}) {
    std::set<std::pair<int64_t, int64_t>> seen;
    for (int64_t tile = 0; tile < grid.tiles(); ++tile) {
      const TileGrid::Place place = grid.place(tile);
      EXPECT_TRUE(0 <= place.row && place.row < grid.rows);
      EXPECT_TRUE(0 <= place.column && place.column < grid.columns);
      seen.emplace(place.row, place.column);
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), grid.rows * grid.columns);
  }
}

// ---- groups

struct Offsets {
  std::vector<int32_t> rows;    // first row of each group, and the end of the last
  std::vector<int32_t> before;  // by hand, for tiles of 128
};

// A grouped_matmul of so many groups on `total` rows, as far as RowGroups looks at it.
struct GroupedCall {
  GroupedCall(std::vector<int32_t> rows, int64_t total) : offsets(std::move(rows)) {
    inputs = {{nullptr, {total, 1}, DType::bf16},
              {nullptr, {static_cast<int64_t>(offsets.size()) - 1, 1, 1}, DType::bf16},
              {offsets.data(), {static_cast<int64_t>(offsets.size())}, DType::i32}};
  }
  RowGroups groups() const {
    const OpCall op{nullptr, inputs, {}, -1};
    return {{op, nullptr, nullptr}, inputs[1].shape[0]};
  }
  std::vector<int32_t> offsets;
  std::vector<Buffer> inputs;
};

TEST(GroupedTiles, AreCountedOnTheDevice) {
  Fibres fibres;
  const Offsets cases[] = {
      {{0, 0}, {0, 0}},
      {{0, 1}, {0, 1}},
      {{0, 128, 256}, {0, 1, 2}},
      {{0, 129, 129, 130, 130}, {0, 2, 2, 3, 3}},
      {{0, 0, 0, 500}, {0, 0, 0, 4}},
  };
  for (const Offsets& c : cases)
    for (const ThreadOrder order : {ThreadOrder::rising, ThreadOrder::falling}) {
      const GroupedCall call(c.rows, 600);
      std::vector<int32_t> before(c.rows.size(), -1);
      const CountTiles body{call.groups(), 128, before.data()};
      fibres.run(CountTiles::threads, body.scratch_bytes(), order,
                 [&](const FibreGroup& group) { body(group, 0); });
      EXPECT_EQ(before, c.before);
    }
}

TEST(GroupedTiles, FindTheirGroup) {
  const GroupedCall call({0, 129, 129, 130, 130}, 600);
  const std::vector<int32_t> before = {0, 2, 2, 3, 3};
  const GroupedRows<TensorProduct> rows{call.groups(), {{}, {}, {}, 0, 300, 8}, 0, before.data()};
  EXPECT_EQ(rows.tiles(), (600 / 128 + 4) * 3);  // the most that 600 rows in 4 groups can need
  std::vector<int64_t> found;
  for (int64_t tile = 0; tile < 6; ++tile)
    found.push_back(rows.group_of(tile));
  EXPECT_THAT(found, testing::ElementsAre(0, 0, 2, 4, 4, 4));
}

// More groups than a group of threads has threads: 300 of one row each, every seventh without.
TEST(GroupedTiles, OfManyGroups) {
  std::vector<int32_t> offsets = {0}, want = {0};
  for (int e = 0; e < 300; ++e) {
    offsets.push_back(offsets.back() + (e % 7 != 0));
    want.push_back(want.back() + (e % 7 != 0));
  }
  const GroupedCall call(offsets, 300);
  std::vector<int32_t> before(301, -1);
  const CountTiles body{call.groups(), 128, before.data()};
  Fibres().run(CountTiles::threads, body.scratch_bytes(), ThreadOrder::falling,
               [&](const FibreGroup& group) { body(group, 0); });
  EXPECT_EQ(before, want);
}

// ---- products

void expect_right(const OpCase& c) {
  const auto inputs = random_inputs(c, 5);
  const auto want = reference(c, inputs);
  const auto bits = run_cuda_body(c, inputs, ThreadOrder::rising);
  expect_close(decode(bits[0], c.outputs[0].dtype), want[0], c.outputs[0].dtype, c.name);
  EXPECT_EQ(bits, run_cuda_body(c, inputs, ThreadOrder::falling)) << c.name;
  EXPECT_EQ(bits, run_cuda_body(c, inputs, ThreadOrder::rising, 1)) << c.name << ", not aligned";
}

// Two tiles each way, and more steps than panels in flight; multiples of eight and not.
TEST(TensorProducts, OfEveryTransposition) {
  for (const auto& [m, n, k] :
       {std::tuple<int64_t, int64_t, int64_t>{136, 200, 168}, {131, 129, 97}})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        OpCase c = op_case(text(m, "x", n, "x", k, transpose_a, transpose_b), OpKind::matmul,
                           {{transpose_a ? Shape{k, m} : Shape{m, k}, DType::bf16},
                            {transpose_b ? Shape{n, k} : Shape{k, n}, DType::bf16}},
                           {{{m, n}, m == 136 ? DType::bf16 : DType::f32}});
        c.attributes.transpose_a = transpose_a;
        c.attributes.transpose_b = transpose_b;
        expect_right(c);
      }
}

// Groups of 0, 1, 129 and 130 rows and a rest that belongs to none.
TEST(TensorProducts, OfGroups) {
  const Values offsets = {0, 0, 1, 130, 260};
  const Item given{{5}, DType::i32, Item::Fill::given, 0, offsets};
  const Shape weights{4, 136, 40}, wide{270, 136}, narrow{270, 40};
  const DType x = DType::bf16;
  OpCase forward =
      op_case("forward", OpKind::grouped_matmul, {{narrow, x}, {weights, x}, given}, {{wide, x}});
  forward.attributes.transpose_b = true;
  expect_right(forward);
  expect_right(
      op_case("input", OpKind::grouped_matmul, {{wide, x}, {weights, x}, given}, {{narrow, x}}));
  OpCase weight =
      op_case("weight", OpKind::grouped_matmul, {{wide, x}, {narrow, x}, given}, {{weights, x}});
  weight.attributes.transpose_a = true;
  expect_right(weight);
}

}  // namespace
}  // namespace spillway
