// matmul by our own tiles: the fallback beside cuBLASLt, on tensor cores where operands are bf16.
#pragma once

#include "harness/cuda/ops/tensor_product.cuh"

namespace spillway {

template <class Product>
struct MatmulTile {
  static constexpr int threads = Product::threads, blocks_at_once = Product::blocks_at_once;
  Product product;
  TileGrid grid;

  static int64_t scratch_bytes() { return Product::scratch_bytes(); }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const TileGrid::Place place = grid.place(tile);
    product.tile(group, place.row * Product::side, place.column * Product::side);
  }
};

struct MatmulKernel {
  static constexpr OpKind kind = OpKind::matmul;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const Attributes& how = call.attributes();
    const Buffer &a = call.input(0), &b = call.input(1), &c = call.output(0);
    const TileProduct whole{matrix_of(a, a.shape[1], how.transpose_a),
                            matrix_of(b, b.shape[1], how.transpose_b),
                            matrix_of(c, c.shape[1]),
                            c.shape[0],
                            c.shape[1],
                            how.transpose_a ? a.shape[0] : a.shape[1]};
    with_product(a, b, whole, [&](const auto& product) {
      const TileGrid grid = grid_of(product);
      launch(MatmulTile<std::decay_t<decltype(product)>>{product, grid}, grid.tiles());
    });
  }
};

}  // namespace spillway
