// cross_entropy: a group of threads takes a row of logits, once for its maximum and the sum of
// exponentials, once for the gradient; the losses of rows are added in a fixed order. A target
// outside the vocabulary makes the loss NaN.
#pragma once

#include "harness/cuda/ops/call.cuh"

namespace spillway {

struct LossRow : NoScratch {
  static constexpr int threads = 1024;
  int64_t rows, vocabulary;
  const int32_t* targets;
  View logits, gradient;
  double* losses;

  explicit LossRow(const KernelCall& call)
      : rows(call.input(0).shape[0]),
        vocabulary(call.input(0).shape[1]),
        targets(call.input(1).as<int32_t>()),
        logits(view_of(call.input(0), {vocabulary})),
        gradient(view_of(call.output(1), {vocabulary})),
        losses(reinterpret_cast<double*>(call.workspace)) {}

  // The thread's own maximum and the sum of exp(x - maximum) over its columns.
  struct Softmax {
    float largest = -INFINITY, sum = 0;
  };
  SPILLWAY_DEVICE static void add(Softmax& own, const Pack& x, int64_t count) {
    float largest = own.largest;
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i)
      if (i < count) largest = fmaxf(largest, x[i]);
    if (largest > own.largest) own.sum *= expf(own.largest - largest);
    own.largest = largest;
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i)
      if (i < count && x[i] != -INFINITY) own.sum += expf(x[i] - largest);
  }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t row) const {
    const int64_t step = int64_t{group.size()} * pack_width, first = group.rank() * pack_width,
                  target = targets[row];
    const bool valid = target >= 0 && target < vocabulary;
    const float at_target = valid ? load_one(logits, row * vocabulary + target) : NAN;
    Softmax own;
    Pack x;
    for (int64_t c = first; c < vocabulary; c += step) {
      load_pack(logits, row * vocabulary + c, vocabulary - c, x);
      add(own, x, vocabulary - c);
    }
    const float largest = group.max(own.largest);
    const float total = group.sum(own.sum == 0 ? 0 : own.sum * expf(own.largest - largest));
    const float inverse_rows = 1.f / static_cast<float>(rows), scale = inverse_rows / total;
    for (int64_t c = first; c < vocabulary; c += step) {
      load_pack(logits, row * vocabulary + c, vocabulary - c, x);
      SPILLWAY_UNROLL
      for (int i = 0; i < pack_width; ++i) {
        x[i] = expf(x[i] - largest) * scale;
        if (c + i == target) x[i] -= inverse_rows;
      }
      store_pack(gradient, row * vocabulary + c, vocabulary - c, x);
    }
    if (group.rank() != 0) return;
    losses[row] = log(static_cast<double>(total)) + static_cast<double>(largest) -
                  static_cast<double>(at_target);
  }
};

// Threads sum every so-many-th loss, then one of them those sums.
struct MeanLoss {
  static constexpr int threads = 512;
  const double* losses;
  int64_t rows;
  float* loss;

  static int64_t scratch_bytes() { return threads * 8; }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t) const {
    auto* sums = reinterpret_cast<double*>(group.scratch());
    double sum = 0;
    for (int64_t row = group.rank(); row < rows; row += group.size())
      sum += losses[row];
    sums[group.rank()] = sum;
    group.sync();
    if (group.rank() != 0) return;
    for (int i = 1; i < group.size(); ++i)
      sum += sums[i];
    *loss = static_cast<float>(sum / static_cast<double>(rows));
  }
};

struct CrossEntropyKernel {
  static constexpr OpKind kind = OpKind::cross_entropy;
  static int64_t workspace_bytes(const Program& program, const Op& op) {
    return program.at(op.inputs[0].tensor).shape[0] * 8;
  }

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const LossRow body(call);
    launch(body, body.rows);
    launch(MeanLoss{body.losses, body.rows, call.output(0).as<float>()}, 1);
  }
};

}  // namespace spillway
