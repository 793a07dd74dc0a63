// dispatch_einsum, combine_einsum and mask_gradient by our own tiles. Slot s = e * C + c of
// sequence b is row (e * batch + b) * C + c of y: blocks of C rows that lie batch * C apart.
#pragma once

#include "harness/cuda/ops/tensor_product.cuh"

namespace spillway {

// The same product for every sequence; in memory the operands of the next one begin `*_apart`
// elements later.
struct SequenceProducts {
  TileProduct product;
  int64_t a_apart, b_apart, c_apart;
};

template <class Product>
struct SequenceTile {
  static constexpr int threads = Product::threads, blocks_at_once = Product::blocks_at_once;
  Product product;
  TileGrid grid;
  int64_t a_apart, b_apart, c_apart;

  static int64_t scratch_bytes() { return Product::scratch_bytes(); }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t tiles = grid.rows * grid.columns, sequence = tile / tiles;
    Product one = product;
    one.a.first += sequence * a_apart;
    one.b.first += sequence * b_apart;
    one.c.first += sequence * c_apart;
    const TileGrid::Place place = grid.place(tile - sequence * tiles);
    one.tile(group, place.row * Product::side, place.column * Product::side);
  }
};

template <OpKind op>
struct CapacityEinsumKernel {
  static constexpr OpKind kind = op;

  static SequenceProducts products_of(const KernelCall& call) {
    const Attributes& how = call.attributes();
    const Buffer& y = op == OpKind::dispatch_einsum ? call.output(0) : call.input(1);
    const int64_t slots = y.shape[0] / how.batch, width = y.shape[1], mask_apart = how.seq * slots,
                  tokens_apart = how.seq * width, y_apart = how.capacity * width;
    const RowBlocks blocks{how.capacity, how.batch * how.capacity};
    const Buffer &first = call.input(0), &second = call.input(1), &out = call.output(0);
    if constexpr (op == OpKind::dispatch_einsum) {
      return {{matrix_of(first, slots, true), matrix_of(second, width),
               matrix_of(out, width, false, 0, blocks), slots, width, how.seq},
              mask_apart,
              tokens_apart,
              y_apart};
    } else if constexpr (op == OpKind::combine_einsum) {
      return {{matrix_of(first, slots), matrix_of(second, width, false, 0, blocks),
               matrix_of(out, width), how.seq, width, slots},
              mask_apart,
              y_apart,
              tokens_apart};
    } else {
      return {{matrix_of(first, width), matrix_of(second, width, true, 0, blocks),
               matrix_of(out, slots), how.seq, slots, width},
              tokens_apart,
              y_apart,
              mask_apart};
    }
  }

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const SequenceProducts all = products_of(call);
    with_product(call.input(0), call.input(1), all.product, [&](const auto& product) {
      const TileGrid grid = grid_of(product);
      launch(SequenceTile<std::decay_t<decltype(product)>>{product, grid, all.a_apart, all.b_apart,
                                                           all.c_apart},
             call.attributes().batch * grid.tiles());
    });
  }
};
using DispatchEinsumKernel = CapacityEinsumKernel<OpKind::dispatch_einsum>;
using CombineEinsumKernel = CapacityEinsumKernel<OpKind::combine_einsum>;
using MaskGradientKernel = CapacityEinsumKernel<OpKind::mask_gradient>;

}  // namespace spillway
