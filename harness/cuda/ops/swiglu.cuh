// swiglu and its gradients.
#pragma once

#include "harness/cuda/ops/elementwise.cuh"

namespace spillway {

// gate, up -> silu(gate) up
struct SwigluMap {
  SPILLWAY_DEVICE static void apply(const Pack (&in)[2], Pack (&out)[1]) {
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i)
      out[0][i] = in[1][i] * in[0][i] * logistic(in[0][i]);
  }
};

// gate, up, dact -> dgate, dup; silu'(g) = s (1 + g (1 - s)) with s = sigmoid(g)
struct SwigluBackwardMap {
  SPILLWAY_DEVICE static void apply(const Pack (&in)[3], Pack (&out)[2]) {
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i) {
      const float g = in[0][i], s = logistic(g), d = in[2][i];
      out[0][i] = d * in[1][i] * s * (1.f + g * (1.f - s));
      out[1][i] = d * g * s;
    }
  }
};

using SwigluKernel = ElementwiseKernel<OpKind::swiglu, SwigluMap, 2, 1>;
using SwigluBackwardKernel = ElementwiseKernel<OpKind::swiglu_backward, SwigluBackwardMap, 3, 2>;

}  // namespace spillway
