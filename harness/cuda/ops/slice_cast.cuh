// slice_cast and write_slice: the same values in another dtype.
#pragma once

#include "harness/cuda/ops/elementwise.cuh"

namespace spillway {

struct CastMap {
  SPILLWAY_DEVICE static void apply(const Pack (&in)[1], Pack (&out)[1]) {
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i)
      out[0][i] = in[0][i];
  }
};

using SliceCastKernel = ElementwiseKernel<OpKind::slice_cast, CastMap, 1, 1>;
using WriteSliceKernel = ElementwiseKernel<OpKind::write_slice, CastMap, 1, 1>;

}  // namespace spillway
