// rope and rope_backward: a group of threads takes a row, makes the cosines and sines of its
// position once and turns every head by them.
#pragma once

#include <algorithm>

#include "harness/cuda/ops/call.cuh"
#include "harness/error.h"
#include "harness/ops/rope_frequencies.h"

namespace spillway {

// The turn by position * frequency of `dim` columns; small enough to be a kernel's argument.
struct Turn {
  static constexpr int most_pairs = 128;
  int64_t seq;
  int dim;
  bool interleaved;
  float direction, factor;  // direction 1, or -1 for the transpose
  float frequency[most_pairs];

  Turn(const Attributes& a, int64_t columns, float turn_direction)
      : seq(a.seq),
        dim(static_cast<int>(columns)),
        interleaved(a.interleaved),
        direction(turn_direction),
        factor(static_cast<float>(rope_attention_factor(a.rope))),
        frequency{} {
    const std::vector<float> frequencies = rope_frequencies(columns, a.rope);
    check(frequencies.size() <= most_pairs, "turns ", columns, " columns of a head, at most ",
          2 * most_pairs, " are possible");
    std::copy(frequencies.begin(), frequencies.end(), frequency);
  }
  int64_t scratch_bytes() const { return int64_t{dim} * 4; }
  int half() const { return dim / 2; }
  int packs() const { return (dim / 2 + pack_width - 1) / pack_width; }

  // Fills scratch with dim / 2 cosines and then sines for this row; ends with a sync.
  template <class Group>
  SPILLWAY_DEVICE const float* angles(const Group& group, int64_t row) const {
    float* cosine = reinterpret_cast<float*>(group.scratch());
    const float position = static_cast<float>(row % seq);
    for (int i = group.rank(); i < dim / 2; i += group.size()) {
      const float angle = position * frequency[i];
      cosine[i] = cosf(angle) * factor;
      cosine[dim / 2 + i] = sinf(angle) * factor;
    }
    group.sync();
    return cosine;
  }

  // The two members of eight pairs, beginning with pair i of the head whose turned columns begin at
  // `head`: as two halves, or (in `woven` memory) side by side.
  SPILLWAY_DEVICE void load(const View& x, int64_t head, int i, bool woven, Pack& low,
                            Pack& high) const {
    const int64_t count = dim / 2 - i;
    if (!woven) {
      load_pack(x, head + i, count, low);
      load_pack(x, head + dim / 2 + i, count, high);
      return;
    }
    Pack first, second;
    load_pack(x, head + 2 * i, 2 * count, first);
    load_pack(x, head + 2 * i + pack_width, 2 * count - pack_width, second);
    SPILLWAY_UNROLL
    for (int j = 0; j < pack_width / 2; ++j) {
      low[j] = first[2 * j];
      high[j] = first[2 * j + 1];
      low[pack_width / 2 + j] = second[2 * j];
      high[pack_width / 2 + j] = second[2 * j + 1];
    }
  }
  SPILLWAY_DEVICE void store(const View& y, int64_t head, int i, bool woven, const Pack& low,
                             const Pack& high) const {
    const int64_t count = dim / 2 - i;
    if (!woven) {
      store_pack(y, head + i, count, low);
      store_pack(y, head + dim / 2 + i, count, high);
      return;
    }
    Pack first, second;
    SPILLWAY_UNROLL
    for (int j = 0; j < pack_width / 2; ++j) {
      first[2 * j] = low[j];
      first[2 * j + 1] = high[j];
      second[2 * j] = low[pack_width / 2 + j];
      second[2 * j + 1] = high[pack_width / 2 + j];
    }
    store_pack(y, head + 2 * i, 2 * count, first);
    store_pack(y, head + 2 * i + pack_width, 2 * count - pack_width, second);
  }
  bool woven_input() const { return interleaved && direction > 0; }
  bool woven_output() const { return interleaved && direction < 0; }

  SPILLWAY_DEVICE void turn(const float* cosine, int i, Pack& low, Pack& high) const {
    const float* sine = cosine + dim / 2;
    SPILLWAY_UNROLL
    for (int j = 0; j < pack_width; ++j) {
      if (i + j >= dim / 2) continue;
      const float a = low[j], b = high[j];
      low[j] = a * cosine[i + j] - direction * b * sine[i + j];
      high[j] = b * cosine[i + j] + direction * a * sine[i + j];
    }
  }
};

// One row. Heads go in sets of as many as the group has threads for: where pairs lie side by side
// on one end, a set is read before any of it is written, so that y may be x.
template <int Threads>
struct RopeRow {
  static constexpr int threads = Threads;
  Turn turn;
  int64_t heads, head_dim, copied;
  bool woven_in, woven_out, in_place;
  View x, y;

  RopeRow(const KernelCall& call, const Turn& how)
      : turn(how),
        heads(call.attributes().heads),
        head_dim(call.attributes().head_dim),
        copied(head_dim - how.dim),
        woven_in(how.woven_input()),
        woven_out(how.woven_output()),
        in_place(call.input(0).data == call.output(0).data),
        x(view_of(call.input(0), {head_dim, copied, how.half()})),
        y(view_of(call.output(0), {head_dim, copied, how.half()})) {}
  int64_t scratch_bytes() const { return turn.scratch_bytes(); }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t row) const {
    const float* cosine = turn.angles(group, row);
    const int packs = (turn.dim / 2 + pack_width - 1) / pack_width, set = group.size() / packs,
              own_head = group.rank() / packs, i = group.rank() % packs * pack_width;
    for (int64_t first = 0; first < heads; first += set) {
      const int64_t head = first + own_head, columns = (row * heads + head) * head_dim + copied;
      const bool inside = own_head < set && head < heads;
      Pack low, high;
      if (inside) turn.load(x, columns, i, woven_in, low, high);
      if (woven_in || woven_out) group.sync();
      if (!inside) continue;
      turn.turn(cosine, i, low, high);
      turn.store(y, columns, i, woven_out, low, high);
    }
    if (!in_place) copy_rest(group, row);
  }

  // The columns before those that turn.
  template <class Group>
  SPILLWAY_DEVICE void copy_rest(const Group& group, int64_t row) const {
    const int64_t packs = (copied + pack_width - 1) / pack_width;
    for (int64_t unit = group.rank(); unit < heads * packs; unit += group.size()) {
      const int64_t column = unit % packs * pack_width,
                    at = (row * heads + unit / packs) * head_dim + column;
      Pack values;
      load_pack(x, at, copied - column, values);
      store_pack(y, at, copied - column, values);
    }
  }
};

template <OpKind op>
struct RopeKernel {
  static constexpr OpKind kind = op;

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const Attributes& a = call.attributes();
    const Turn turn(a, a.rope_dim == 0 ? a.head_dim : a.rope_dim,
                    op == OpKind::rope_backward ? -1.f : 1.f);
    const int64_t rows = call.input(0).shape[0];
    if (a.heads * turn.packs() <= 128) {
      launch(RopeRow<32>(call, turn), rows);
    } else {
      launch(RopeRow<256>(call, turn), rows);
    }
  }
};
using RopeForwardKernel = RopeKernel<OpKind::rope>;
using RopeBackwardKernel = RopeKernel<OpKind::rope_backward>;

}  // namespace spillway
