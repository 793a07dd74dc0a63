// capacity_mask and its gradient. The slots of a sequence are filled by one group of threads, an
// expert a thread, each walking through the sequence's choices in order.
#pragma once

#include "harness/cuda/ops/call.cuh"

namespace spillway {

struct FillSlots {
  static constexpr int threads = 256;
  static constexpr int chunk = 1024;
  int64_t choices, experts, capacity;  // of one sequence: seq * k
  const int32_t* chosen;
  int32_t *slots, *dropped;  // dropped: one a sequence

  explicit FillSlots(const KernelCall& call)
      : choices(call.attributes().seq * call.input(0).shape[1]),
        experts(call.output(0).shape[1] / call.attributes().capacity),
        capacity(call.attributes().capacity),
        chosen(call.input(0).as<int32_t>()),
        slots(call.output(2).as<int32_t>()),
        dropped(reinterpret_cast<int32_t*>(call.workspace)) {}
  static int64_t scratch_bytes() { return (chunk + threads) * 4; }

  // One expert's walk through all choices of a sequence; returns how many were dropped.
  template <class Group>
  SPILLWAY_DEVICE int32_t walk(const Group& group, int64_t sequence, int64_t expert,
                               int32_t* here) const {
    int64_t used = 0;
    int32_t lost = 0;
    for (int64_t first = 0; first < choices; first += chunk) {
      const int64_t count = choices - first < chunk ? choices - first : chunk;
      const int64_t at = sequence * choices + first;
      group.sync();
      for (int64_t i = group.rank(); i < count; i += group.size())
        here[i] = chosen[at + i];
      group.sync();
      for (int64_t i = 0; i < count && expert < experts; ++i) {
        if (here[i] != expert) continue;
        const bool full = used == capacity;
        slots[at + i] = full ? -1 : static_cast<int32_t>(expert * capacity + used);
        lost += full ? 1 : 0;
        used += full ? 0 : 1;
      }
    }
    return lost;
  }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t sequence) const {
    auto* here = reinterpret_cast<int32_t*>(group.scratch());
    int32_t* lost = here + chunk;
    int32_t own = 0;
    for (int64_t first = 0; first < experts; first += group.size())
      own += walk(group, sequence, first + group.rank(), here);
    lost[group.rank()] = own;
    group.sync();
    if (group.rank() != 0) return;
    for (int i = 1; i < group.size(); ++i)
      own += lost[i];
    dropped[sequence] = own;
  }
};

struct SumDropped : NoScratch {
  static constexpr int threads = 32;
  const int32_t* of_sequence;
  int64_t sequences;
  int32_t* dropped;

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t) const {
    if (group.rank() != 0) return;
    int32_t sum = 0;
    for (int64_t b = 0; b < sequences; ++b)
      sum += of_sequence[b];
    *dropped = sum;
  }
};

struct MaskRows : NoScratch {
  static constexpr int threads = 256;
  RowPacks packs;
  int64_t copies;
  const int32_t* slots;
  const float* weights;
  View dispatch, combine;

  explicit MaskRows(const KernelCall& call)
      : packs(call.output(0).shape[0], call.output(0).shape[1]),
        copies(call.input(0).shape[1]),
        slots(call.output(2).as<int32_t>()),
        weights(call.input(1).as<float>()),
        dispatch(view_of(call.output(0), {packs.width})),
        combine(view_of(call.output(1), {packs.width})) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const RowPacks::Unit unit = packs.unit(tile * group.size() + group.rank());
    if (!unit.inside) return;
    Pack ones = {}, weighted = {};
    for (int64_t i = unit.row * copies; i < (unit.row + 1) * copies; ++i) {
      const int64_t column = slots[i] - unit.column;
      SPILLWAY_UNROLL
      for (int d = 0; d < pack_width; ++d) {
        if (column != d || slots[i] < 0) continue;
        ones[d] = 1;
        weighted[d] = weights[i];
      }
    }
    store_pack(dispatch, unit.first, unit.count, ones);
    store_pack(combine, unit.first, unit.count, weighted);
  }
};

struct CapacityMaskKernel {
  static constexpr OpKind kind = OpKind::capacity_mask;
  static int64_t workspace_bytes(const Program&, const Op& op) { return op.attributes.batch * 4; }

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const int64_t batch = call.attributes().batch;
    const FillSlots fill(call);
    launch(fill, batch);
    launch(SumDropped{{}, fill.dropped, batch, call.output(3).as<int32_t>()}, 1);
    const MaskRows body(call);
    launch(body, body.packs.tiles(MaskRows::threads));
  }
};

// dweights[t, j] = dcombine[t, slots[t, j]], 0 where dropped.
struct MaskGradientOfWeights : NoScratch {
  static constexpr int threads = 256;
  int64_t count, copies, width;
  const int32_t* slots;
  View d_combine;
  float* d_weights;

  explicit MaskGradientOfWeights(const KernelCall& call)
      : count(call.input(1).elements()),
        copies(call.input(1).shape[1]),
        width(call.input(0).shape[1]),
        slots(call.input(1).as<int32_t>()),
        d_combine(view_of(call.input(0))),
        d_weights(call.output(0).as<float>()) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t i = tile * group.size() + group.rank();
    if (i >= count) return;
    const int64_t slot = slots[i];
    float gradient = slot < width ? 0 : NAN;  // there is no such slot
    if (slot >= 0 && slot < width)
      gradient = load_one(d_combine, RowPacks::quotient(i, copies) * width + slot);
    d_weights[i] = gradient;
  }
};

struct CapacityMaskBackwardKernel {
  static constexpr OpKind kind = OpKind::capacity_mask_backward;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const MaskGradientOfWeights body(call);
    launch(body, parts_of(body.count, MaskGradientOfWeights::threads));
  }
};

}  // namespace spillway
