// combine and combine_backward.
#pragma once

#include "harness/cuda/ops/permute.cuh"

namespace spillway {

struct CombineKernel {
  static constexpr OpKind kind = OpKind::combine;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const GatherRows body(call, call.input(2).as<float>());
    launch(body, body.packs.tiles(GatherRows::threads));
  }
};

// One token: dy[position[t, j]] = weights[t, j] dout[t], dweights[t, j] = dout[t] . y[position[t,
// j]], j after j.
template <int Threads>
struct CombineBackwardToken : NoScratch {
  static constexpr int threads = Threads;
  int64_t rows, width, copies;
  const int32_t* position;
  const float* weights;
  float* d_weights;
  View dout, y, dy;

  explicit CombineBackwardToken(const KernelCall& call)
      : rows(call.input(1).shape[0]),
        width(call.input(1).shape[1]),
        copies(call.input(2).shape[1]),
        position(call.input(2).as<int32_t>()),
        weights(call.input(3).as<float>()),
        d_weights(call.output(1).as<float>()),
        dout(view_of(call.input(0), {width})),
        y(view_of(call.input(1), {width})),
        dy(view_of(call.output(0), {width})) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t token) const {
    const int64_t step = int64_t{group.size()} * pack_width;
    for (int64_t slot = token * copies; slot < (token + 1) * copies; ++slot) {
      const int64_t row = position[slot];
      const float weight = weights[slot];
      float products = 0;
      for (int64_t c = group.rank() * pack_width; c < width; c += step) {
        Pack gradient, value;
        load_pack(dout, token * width + c, width - c, gradient);
        load_row_pack(y, row, rows, width, c, value);
        SPILLWAY_UNROLL
        for (int i = 0; i < pack_width; ++i) {
          products += c + i < width ? gradient[i] * value[i] : 0.f;
          gradient[i] *= weight;
        }
        if (row >= 0 && row < rows) store_pack(dy, row * width + c, width - c, gradient);
      }
      products = group.sum(products);
      if (group.rank() == 0) d_weights[slot] = products;
    }
  }
};

struct CombineBackwardKernel {
  static constexpr OpKind kind = OpKind::combine_backward;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const int64_t tokens = call.input(0).shape[0], width = call.input(0).shape[1];
    if (width <= 1024) {
      launch(CombineBackwardToken<32>(call), tokens);
    } else {
      launch(CombineBackwardToken<256>(call), tokens);
    }
  }
};

}  // namespace spillway
