// grouped_matmul by our own tiles, the sizes of groups read on the device. The number of tiles is
// that of the most unequal groups; those that find no rows do nothing.
#pragma once

#include "harness/cuda/ops/product_tile.cuh"

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

// transpose_b and neither: each row tile belongs to one group.
struct GroupedRows {
  static constexpr int threads = tile_threads;
  RowGroups groups;
  Matrix a, b, c;  // b: of the first group
  int64_t n, k, matrix;

  static int64_t scratch_bytes() { return tile_scratch * 4; }
  int64_t tiles() const {
    return (groups.rows / tile_size + groups.groups) * parts_of(n, tile_size);
  }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t columns = (n + tile_size - 1) / tile_size;
    int64_t row_tile = tile / columns, e = 0, first = 0, end = 0;
    for (; e < groups.groups; ++e) {
      first = groups.first(e);
      end = groups.first(e + 1);
      const int64_t here = end > first ? (end - first + tile_size - 1) / tile_size : 0;
      if (row_tile < here) break;
      row_tile -= here;
    }
    if (e == groups.groups) return;
    TileProduct product{a, b, c, end - first, n, k};
    product.a.first = first * a.stride;
    product.b.first = e * matrix;
    product.c.first = first * c.stride;
    product.tile(group, row_tile * tile_size, tile % columns * tile_size);
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

// transpose_a: c[e] = a_e^T b_e.
struct GroupedSums {
  static constexpr int threads = tile_threads;
  RowGroups groups;
  Matrix a, b, c;
  int64_t n, k;  // rows and columns of c[e]

  static int64_t scratch_bytes() { return tile_scratch * 4; }
  int64_t tiles_of_group() const { return parts_of(n, tile_size) * parts_of(k, tile_size); }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t columns = (k + tile_size - 1) / tile_size,
                  tiles = columns * ((n + tile_size - 1) / tile_size), e = tile / tiles,
                  first = groups.first(e), end = groups.first(e + 1), own = tile - e * tiles;
    TileProduct product{a, b, c, n, k, end - first};
    product.a.first = first * a.stride;
    product.b.first = first * b.stride;
    product.c.first = e * n * k;
    product.tile(group, own / columns * tile_size, own % columns * tile_size);
  }
};

struct GroupedMatmulKernel {
  static constexpr OpKind kind = OpKind::grouped_matmul;

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const Attributes& how = call.attributes();
    const Buffer &a = call.input(0), &b = call.input(1), &c = call.output(0);
    const Shape& three = how.transpose_a ? c.shape : b.shape;
    const RowGroups groups(call, three[0]);
    if (how.transpose_a) {
      const GroupedSums body{groups,
                             matrix_of(a, a.shape[1], true),
                             matrix_of(b, b.shape[1]),
                             matrix_of(c, three[2]),
                             three[1],
                             three[2]};
      launch(body, three[0] * body.tiles_of_group());
      return;
    }
    const GroupedRows body{groups,
                           matrix_of(a, a.shape[1]),
                           matrix_of(b, three[2], how.transpose_b),
                           matrix_of(c, c.shape[1]),
                           c.shape[1],
                           a.shape[1],
                           three[1] * three[2]};
    launch(body, body.tiles());
    if (groups.offsets == nullptr) return;
    const ZeroRest rest(call, groups);
    launch(rest, rest.packs.tiles(ZeroRest::threads));
  }
};

}  // namespace spillway
