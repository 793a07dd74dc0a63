// matmul by our own tiles: the fallback and the reference beside cuBLASLt.
#pragma once

#include "harness/cuda/ops/product_tile.cuh"

namespace spillway {

struct MatmulTile {
  static constexpr int threads = tile_threads;
  TileProduct product;

  static int64_t scratch_bytes() { return tile_scratch * 4; }
  int64_t tiles() const { return parts_of(product.m, tile_size) * parts_of(product.n, tile_size); }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t columns = product.column_tiles();
    product.tile(group, tile / columns * tile_size, tile % columns * tile_size);
  }
};

struct MatmulKernel {
  static constexpr OpKind kind = OpKind::matmul;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const Attributes& how = call.attributes();
    const Buffer &a = call.input(0), &b = call.input(1), &c = call.output(0);
    const MatmulTile body{{matrix_of(a, a.shape[1], how.transpose_a),
                           matrix_of(b, b.shape[1], how.transpose_b), matrix_of(c, c.shape[1]),
                           c.shape[0], c.shape[1], how.transpose_a ? a.shape[0] : a.shape[1]}};
    launch(body, body.tiles());
  }
};

}  // namespace spillway
