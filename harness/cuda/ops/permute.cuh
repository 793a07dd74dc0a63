// route_sort, permute and permute_backward. An index outside the rows is read as a row of NaN.
#pragma once

#include "harness/cuda/ops/sort.cuh"

namespace spillway {

struct RouteSortKernel {
  static constexpr OpKind kind = OpKind::route_sort;

  static SortCut cut(int64_t slots, int64_t offsets) {
    check(offsets <= SortCut::one_pass, "sorts by ", offsets - 1, " experts, at most ",
          SortCut::one_pass - 1, " are possible");
    return {slots, offsets - 1};
  }
  static int64_t workspace_bytes(const Program& program, const Op& op) {
    return cut(program.at(op.inputs[0].tensor).slice_elements(),
               program.at(op.outputs[2].tensor).slice_elements())
        .workspace_bytes();
  }

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const SortCut sizes = cut(call.input(0).elements(), call.output(2).elements());
    const SortPass pass(sizes, 1, call.input(0).as<int32_t>(), nullptr,
                        reinterpret_cast<int32_t*>(call.workspace));
    sort_once(
        launch, sizes, pass,
        {call.output(0).as<int32_t>(), call.output(1).as<int32_t>(), call.output(2).as<int32_t>()});
  }
};

// A pack of row `row`, NaN where there is no such row.
SPILLWAY_DEVICE inline void load_row_pack(const View& view, int64_t row, int64_t rows,
                                          int64_t width, int64_t column, Pack& x) {
  if (row >= 0 && row < rows) {
    load_pack(view, row * width + column, width - column, x);
  } else {
    for (float& value : x)
      value = NAN;
  }
}

struct PermuteRows : NoScratch {
  static constexpr int threads = 256;
  RowPacks packs;
  int64_t tokens, copies;
  const int32_t* order;
  View x, xp;

  explicit PermuteRows(const KernelCall& call)
      : packs(call.output(0).shape[0], call.output(0).shape[1]),
        tokens(call.input(0).shape[0]),
        copies(packs.rows / tokens),
        order(call.input(1).as<int32_t>()),
        x(view_of(call.input(0), {packs.width})),
        xp(view_of(call.output(0), {packs.width})) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const RowPacks::Unit unit = packs.unit(tile * group.size() + group.rank());
    if (!unit.inside) return;
    const int64_t slot = order[unit.row];
    Pack values;
    load_row_pack(x, slot < 0 ? slot : RowPacks::quotient(slot, copies), tokens, packs.width,
                  unit.column, values);
    store_pack(xp, unit.first, unit.count, values);
  }
};

struct PermuteKernel {
  static constexpr OpKind kind = OpKind::permute;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const PermuteRows body(call);
    launch(body, body.packs.tiles(PermuteRows::threads));
  }
};

// out[t] = sum over j, in order, of rows[position[t, j]], each times weights[t, j] where there are
// weights: permute_backward and combine.
struct GatherRows : NoScratch {
  static constexpr int threads = 256;
  RowPacks packs;
  int64_t row_count, copies;
  const int32_t* position;
  const float* weights;
  View rows, out;

  GatherRows(const KernelCall& call, const float* weight_of)
      : packs(call.output(0).shape[0], call.output(0).shape[1]),
        row_count(call.input(0).shape[0]),
        copies(call.input(1).shape[1]),
        position(call.input(1).as<int32_t>()),
        weights(weight_of),
        rows(view_of(call.input(0), {packs.width})),
        out(view_of(call.output(0), {packs.width})) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const RowPacks::Unit unit = packs.unit(tile * group.size() + group.rank());
    if (!unit.inside) return;
    Pack sum = {}, row;
#ifdef __CUDACC__
#pragma unroll 4
#endif
    for (int64_t slot = unit.row * copies; slot < (unit.row + 1) * copies; ++slot) {
      const float weight = weights == nullptr ? 1.f : weights[slot];
      load_row_pack(rows, position[slot], row_count, packs.width, unit.column, row);
      SPILLWAY_UNROLL
      for (int i = 0; i < pack_width; ++i)
        sum[i] += weight * row[i];
    }
    store_pack(out, unit.first, unit.count, sum);
  }
};

struct PermuteBackwardKernel {
  static constexpr OpKind kind = OpKind::permute_backward;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const GatherRows body(call, nullptr);
    launch(body, body.packs.tiles(GatherRows::threads));
  }
};

}  // namespace spillway
