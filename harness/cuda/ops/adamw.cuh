// adamw. The step is read on the device, so that a captured graph may be replayed: one thread works
// out the bias corrections, then all elements are updated in one pass over memory.
#pragma once

#include "harness/cuda/ops/call.cuh"

namespace spillway {

// torch.optim.AdamW: w -= lr wd w;  w -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps).
struct AdamwFactors {
  float step_size, inverse_root2;
};

struct AdamwCorrections : NoScratch {
  static constexpr int threads = 32;
  double learning_rate, beta1, beta2;
  const int64_t* step;
  AdamwFactors* factors;

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t) const {
    if (group.rank() != 0) return;
    const double t = static_cast<double>(*step + 1);
    factors->step_size = static_cast<float>(learning_rate / (1 - pow(beta1, t)));
    factors->inverse_root2 = static_cast<float>(1 / sqrt(1 - pow(beta2, t)));
  }
};

struct AdamwUpdate : NoScratch {
  static constexpr int threads = 256;
  int64_t elements;
  float decay, beta1, beta2, rest1, rest2, epsilon;
  bool with_copy;
  const AdamwFactors* factors;
  View w, m, v, g, new_w, new_m, new_v, copy;

  AdamwUpdate(const KernelCall& call, const AdamwFactors* corrections)
      : elements(call.output(0).elements()),
        decay(static_cast<float>(1 -
                                 call.attributes().learning_rate * call.attributes().weight_decay)),
        beta1(static_cast<float>(call.attributes().beta1)),
        beta2(static_cast<float>(call.attributes().beta2)),
        rest1(static_cast<float>(1 - call.attributes().beta1)),
        rest2(static_cast<float>(1 - call.attributes().beta2)),
        epsilon(static_cast<float>(call.attributes().adam_epsilon)),
        with_copy(call.op.outputs.size() > 3),
        factors(corrections),
        w(view_of(call.input(0))),
        m(view_of(call.input(1))),
        v(view_of(call.input(2))),
        g(view_of(call.input(3))),
        new_w(view_of(call.output(0))),
        new_m(view_of(call.output(1))),
        new_v(view_of(call.output(2))),
        copy(with_copy ? view_of(call.output(3)) : View{}) {}
  int64_t tiles() const { return parts_of(elements, threads * pack_width); }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t first = (tile * group.size() + group.rank()) * pack_width,
                  count = elements - first;
    if (count <= 0) return;
    const AdamwFactors f = *factors;
    Pack weight, mean, square, gradient;
    load_pack(w, first, count, weight);
    load_pack(m, first, count, mean);
    load_pack(v, first, count, square);
    load_pack(g, first, count, gradient);
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i) {
      mean[i] = beta1 * mean[i] + rest1 * gradient[i];
      square[i] = beta2 * square[i] + rest2 * gradient[i] * gradient[i];
      weight[i] = decay * weight[i] -
                  f.step_size * mean[i] / (sqrtf(square[i]) * f.inverse_root2 + epsilon);
    }
    store_pack(new_w, first, count, weight);
    store_pack(new_m, first, count, mean);
    store_pack(new_v, first, count, square);
    if (with_copy) store_pack(copy, first, count, weight);
  }
};

struct AdamwKernel {
  static constexpr OpKind kind = OpKind::adamw;
  static int64_t workspace_bytes(const Program&, const Op&) { return sizeof(AdamwFactors); }

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const Attributes& a = call.attributes();
    auto* factors = reinterpret_cast<AdamwFactors*>(call.workspace);
    launch(AdamwCorrections{{}, a.learning_rate, a.beta1, a.beta2, call.step, factors}, 1);
    const AdamwUpdate body(call, factors);
    launch(body, body.tiles());
  }
};

}  // namespace spillway
