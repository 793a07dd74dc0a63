// grouped_matmul by our own tiles, on tensor cores where operands are bf16; the sizes of groups are
// read on the device. A first phase adds up the groups' rows of tiles, so that a tile finds its group
// by halving. The number of tiles is that of the most unequal groups; those without rows do nothing.
//
// Not by cuDNN: it has a grouped matmul with the counts on the device from 9.15 on, but the backward
// only from 9.22, and CUDA 13.0 comes with 9.19: two of a layer's three products would be ours anyway.
#pragma once

#include "harness/cuda/ops/tensor_product.cuh"

namespace spillway {

// Group e is rows first(e) .. first(e + 1) - 1 of `rows`.
struct RowGroups {
  int64_t rows, groups;
  const int32_t* offsets;  // null: all of one size

  RowGroups(const KernelCall& call, int64_t count)
      : rows(call.input(0).shape[0]),
        groups(count),
        offsets(call.has_input(2) ? call.input(2).as<int32_t>() : nullptr) {}

  SPILLWAY_DEVICE int64_t first(int64_t e) const {
    const int64_t row = offsets == nullptr ? e * (rows / groups) : offsets[e];
    return row < 0 ? 0 : row > rows ? rows : row;
  }
};

// before[e] = rows of tiles in groups 0 .. e - 1, for e up to `groups`. One tile.
struct CountTiles {
  static constexpr int threads = 256;
  RowGroups groups;
  int64_t side;
  int32_t* before;

  int64_t scratch_bytes() const { return groups.groups * 4; }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t) const {
    auto* own = reinterpret_cast<int32_t*>(group.scratch());
    for (int64_t e = group.rank(); e < groups.groups; e += group.size()) {
      const int64_t rows = groups.first(e + 1) - groups.first(e);
      own[e] = rows > 0 ? static_cast<int32_t>((rows + side - 1) / side) : 0;
    }
    group.sync();
    for (int64_t e = group.rank(); e <= groups.groups; e += group.size()) {
      int32_t sum = 0;
      for (int64_t earlier = 0; earlier < e; ++earlier)
        sum += own[earlier];
      before[e] = sum;
    }
  }
};

// transpose_b and neither: each row tile belongs to one group.
template <class Product>
struct GroupedRows {
  static constexpr int threads = Product::threads, blocks_at_once = Product::blocks_at_once;
  RowGroups groups;
  Product product;  // of the first group; its m is not used
  int64_t matrix;   // elements of b[e]
  const int32_t* before;

  static int64_t scratch_bytes() { return Product::scratch_bytes(); }
  int64_t columns() const { return parts_of(product.n, Product::side); }
  int64_t tiles() const { return (groups.rows / Product::side + groups.groups) * columns(); }

  // The last group with no more than `row_tile` rows of tiles before it; `groups` behind all of them.
  SPILLWAY_DEVICE int64_t group_of(int64_t row_tile) const {
    if (row_tile >= before[groups.groups]) return groups.groups;
    int64_t low = 0, high = groups.groups;  // before[low] <= row_tile < before[high]
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (before[middle] <= row_tile ? low : high) = middle;
    }
    return low;
  }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t columns = (product.n + Product::side - 1) / Product::side,
                  e = group_of(tile / columns);
    if (e == groups.groups) return;
    const int64_t first = groups.first(e);
    Product own = product;
    own.m = groups.first(e + 1) - first;
    own.a.first = first * own.a.stride;
    own.b.first = e * matrix;
    own.c.first = first * own.c.stride;
    const TileGrid grid{before[e + 1] - before[e], columns};
    const TileGrid::Place place = grid.place(tile - before[e] * columns);
    own.tile(group, place.row * Product::side, place.column * Product::side);
  }
};

// Rows of c behind the last group.
struct ZeroRest : NoScratch {
  static constexpr int threads = 256;
  RowGroups groups;
  RowPacks packs;
  View c;

  ZeroRest(const KernelCall& call, const RowGroups& of)
      : groups(of),
        packs(call.output(0).shape[0], call.output(0).shape[1]),
        c(view_of(call.output(0), {packs.width})) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const RowPacks::Unit unit = packs.unit(tile * group.size() + group.rank());
    if (!unit.inside || unit.row < groups.first(groups.groups)) return;
    const Pack zero = {};
    store_pack(c, unit.first, unit.count, zero);
  }
};

// transpose_a: c[e] = a_e^T b_e; zeros for a group without rows.
template <class Product>
struct GroupedSums {
  static constexpr int threads = Product::threads, blocks_at_once = Product::blocks_at_once;
  RowGroups groups;
  Product product;  // of the first group; its k is not used
  TileGrid grid;    // of each c[e]

  static int64_t scratch_bytes() { return Product::scratch_bytes(); }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t tiles = grid.rows * grid.columns, e = tile / tiles, first = groups.first(e),
                  end = groups.first(e + 1);
    Product own = product;
    own.k = end > first ? end - first : 0;
    own.a.first = first * own.a.stride;
    own.b.first = first * own.b.stride;
    own.c.first = e * own.m * own.n;
    const TileGrid::Place place = grid.place(tile - e * tiles);
    own.tile(group, place.row * Product::side, place.column * Product::side);
  }
};

struct GroupedMatmulKernel {
  static constexpr OpKind kind = OpKind::grouped_matmul;

  static int64_t workspace_bytes(const Program& program, const Op& op) {
    if (op.attributes.transpose_a) return 0;
    return 4 * (program.at(op.inputs[1].tensor).shape[0] + 1);
  }

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    call.attributes().transpose_a ? run_sums(call, launch) : run_rows(call, launch);
  }

  template <class Launch>
  static void run_sums(const KernelCall& call, const Launch& launch) {
    const Buffer &a = call.input(0), &b = call.input(1), &c = call.output(0);
    const TileProduct first{matrix_of(a, a.shape[1], true),
                            matrix_of(b, b.shape[1]),
                            matrix_of(c, c.shape[2]),
                            c.shape[1],
                            c.shape[2],
                            0};
    with_product(a, b, first, [&](const auto& product) {
      const TileGrid grid = grid_of(product);
      launch(
          GroupedSums<std::decay_t<decltype(product)>>{RowGroups(call, c.shape[0]), product, grid},
          c.shape[0] * grid.tiles());
    });
  }

  template <class Launch>
  static void run_rows(const KernelCall& call, const Launch& launch) {
    const Buffer &a = call.input(0), &b = call.input(1), &c = call.output(0);
    const int64_t count = b.shape[0], n = b.shape[1], k = b.shape[2];
    const RowGroups groups(call, count);
    auto* before = reinterpret_cast<int32_t*>(call.workspace);
    const TileProduct first{matrix_of(a, a.shape[1]),
                            matrix_of(b, k, call.attributes().transpose_b),
                            matrix_of(c, c.shape[1]),
                            0,
                            c.shape[1],
                            a.shape[1]};
    with_product(a, b, first, [&](const auto& product) {
      using Product = std::decay_t<decltype(product)>;
      launch(CountTiles{groups, Product::side, before}, 1);
      const GroupedRows<Product> rows{groups, product, n * k, before};
      launch(rows, rows.tiles());
    });
    if (groups.offsets == nullptr) return;
    const ZeroRest rest(call, groups);
    launch(rest, rest.packs.tiles(ZeroRest::threads));
  }
};

}  // namespace spillway
