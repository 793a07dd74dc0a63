// Ops that go element by element over whole buffers.
#pragma once

#include "harness/cuda/ops/call.cuh"

namespace spillway {

// Applies `Map` to packs of In inputs, which gives Out outputs; outputs may be inputs. Map is
//   SPILLWAY_DEVICE static void apply(const Pack (&in)[In], Pack (&out)[Out]);
template <class Map, int In, int Out>
struct Elementwise : NoScratch {
  static constexpr int threads = 256;
  View in[In], out[Out];
  int64_t elements;

  explicit Elementwise(const KernelCall& call) : elements(call.output(0).elements()) {
    for (size_t i = 0; i < In; ++i)
      in[i] = view_of(call.input(i));
    for (size_t i = 0; i < Out; ++i)
      out[i] = view_of(call.output(i));
  }
  int64_t tiles() const { return parts_of(elements, threads * pack_width); }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t first = (tile * group.size() + group.rank()) * pack_width,
                  count = elements - first;
    if (count <= 0) return;
    Pack x[In], y[Out];
    for (int i = 0; i < In; ++i)
      load_pack(in[i], first, count, x[i]);
    Map::apply(x, y);
    for (int i = 0; i < Out; ++i)
      store_pack(out[i], first, count, y[i]);
  }
};

template <OpKind op, class Map, int In, int Out>
struct ElementwiseKernel {
  static constexpr OpKind kind = op;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const Elementwise<Map, In, Out> body(call);
    launch(body, body.tiles());
  }
};

}  // namespace spillway
