// add.
#pragma once

#include "harness/cuda/ops/elementwise.cuh"

namespace spillway {

struct AddMap {
  SPILLWAY_DEVICE static void apply(const Pack (&in)[2], Pack (&out)[1]) {
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i)
      out[0][i] = in[0][i] + in[1][i];
  }
};

using AddKernel = ElementwiseKernel<OpKind::add, AddMap, 2, 1>;

}  // namespace spillway
