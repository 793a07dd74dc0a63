// columns and concat_columns: some columns of every row, from one tensor to another.
#pragma once

#include "harness/cuda/ops/call.cuh"

namespace spillway {

struct CopyColumns : NoScratch {
  static constexpr int threads = 256;
  RowPacks packs;  // of what is copied
  int64_t from_width, from_column, to_width, to_column;
  View from, to;

  // `count` columns of every row; the first column on either side.
  CopyColumns(const Buffer& source, int64_t source_column, const Buffer& target,
              int64_t target_column, int64_t count)
      : packs(source.shape[0], count),
        from_width(source.shape[1]),
        from_column(source_column),
        to_width(target.shape[1]),
        to_column(target_column),
        from(view_of(source, {from_width, from_column})),
        to(view_of(target, {to_width, to_column})) {}
  int64_t tiles() const { return packs.tiles(threads); }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const RowPacks::Unit unit = packs.unit(tile * group.size() + group.rank());
    if (!unit.inside) return;
    Pack values;
    load_pack(from, unit.row * from_width + from_column + unit.column, unit.count, values);
    store_pack(to, unit.row * to_width + to_column + unit.column, unit.count, values);
  }
};

struct ColumnsKernel {
  static constexpr OpKind kind = OpKind::columns;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const Buffer& y = call.output(0);
    const CopyColumns body(call.input(0), call.attributes().first_column, y, 0, y.shape[1]);
    launch(body, body.tiles());
  }
};

struct ConcatColumnsKernel {
  static constexpr OpKind kind = OpKind::concat_columns;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const Buffer &a = call.input(0), &b = call.input(1), &y = call.output(0);
    const CopyColumns left(a, 0, y, 0, a.shape[1]), right(b, 0, y, a.shape[1], b.shape[1]);
    launch(left, left.tiles());
    launch(right, right.tiles());
  }
};

}  // namespace spillway
