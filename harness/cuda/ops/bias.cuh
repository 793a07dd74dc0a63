// add_bias and bias_backward.
#pragma once

#include "harness/cuda/ops/column_sums.cuh"

namespace spillway {

struct AddBiasRows : NoScratch {
  static constexpr int threads = 256;
  RowPacks packs;
  View x, bias, y;

  explicit AddBiasRows(const KernelCall& call)
      : packs(call.input(0).shape[0], call.input(0).shape[1]),
        x(view_of(call.input(0), {packs.width})),
        bias(view_of(call.input(1))),
        y(view_of(call.output(0), {packs.width})) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const RowPacks::Unit unit = packs.unit(tile * group.size() + group.rank());
    if (!unit.inside) return;
    Pack values, added;
    load_pack(x, unit.first, unit.count, values);
    load_pack(bias, unit.column, unit.count, added);
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i)
      values[i] += added[i];
    store_pack(y, unit.first, unit.count, values);
  }
};

struct AddBiasKernel {
  static constexpr OpKind kind = OpKind::add_bias;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const AddBiasRows body(call);
    launch(body, body.packs.tiles(AddBiasRows::threads));
  }
};

// A thread sums one pack of columns over the rows of one part.
struct SumRowsOfPart : NoScratch {
  static constexpr int threads = 128;
  int64_t rows, width, part_rows, blocks;
  View x;
  float* partial;

  SumRowsOfPart(const KernelCall& call, const RowParts& cut)
      : rows(cut.rows),
        width(cut.width),
        part_rows(cut.part_rows),
        blocks(parts_of(width, threads * pack_width)),
        x(view_of(call.input(0), {width})),
        partial(reinterpret_cast<float*>(call.workspace)) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t part = tile / blocks,
                  column = (tile % blocks * group.size() + group.rank()) * pack_width,
                  begin = part * part_rows,
                  end = begin + part_rows < rows ? begin + part_rows : rows;
    if (column >= width) return;
    Pack sum = {}, values;
    for (int64_t row = begin; row < end; ++row) {
      load_pack(x, row * width + column, width - column, values);
      SPILLWAY_UNROLL
      for (int i = 0; i < pack_width; ++i)
        sum[i] += values[i];
    }
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i)
      if (column + i < width) partial[part * width + column + i] = sum[i];
  }
};

struct BiasBackwardKernel {
  static constexpr OpKind kind = OpKind::bias_backward;

  static RowParts cut(const Shape& shape) { return {shape[0], shape[1], 256}; }
  static int64_t workspace_bytes(const Program& program, const Op& op) {
    return cut(program.at(op.inputs[0].tensor).shape).workspace_bytes();
  }

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const RowParts parts = cut(call.input(0).shape);
    const SumRowsOfPart body(call, parts);
    launch(body, parts.parts * body.blocks);
    const AddParts sum(body.partial, parts, call.output(0));
    launch(sum, sum.tiles());
  }
};

}  // namespace spillway
