// mla_key_value and its gradient: a group of threads takes a row, turns the part of the key that
// all heads share once, and moves the rest.
#pragma once

#include "harness/cuda/ops/rope.cuh"

namespace spillway {

// A head of kv is `nope` columns of key and `value` of value; a head of key `nope` and `rope`.
struct LatentSizes {
  int64_t heads, nope, rope, value;

  explicit LatentSizes(const Attributes& a)
      : heads(a.heads), nope(a.head_dim - a.rope_dim), rope(a.rope_dim), value(a.value_dim) {}
  SPILLWAY_DEVICE int64_t kv_head(int64_t row, int64_t head) const {
    return (row * heads + head) * (nope + value);
  }
  SPILLWAY_DEVICE int64_t key_head(int64_t row, int64_t head) const {
    return (row * heads + head) * (nope + rope);
  }
  SPILLWAY_DEVICE int64_t value_head(int64_t row, int64_t head) const {
    return (row * heads + head) * value;
  }
};

// Where something lies: element of row 0 and head 0, elements from head to head.
struct HeadColumns {
  View view;
  int64_t first, stride;
};

// to[head, 0 .. width) = from[head, 0 .. width) for every head of one row.
template <class Group>
SPILLWAY_DEVICE void copy_heads(const Group& group, int64_t heads, int64_t width,
                                const HeadColumns& from, const HeadColumns& to) {
  const int64_t packs = (width + pack_width - 1) / pack_width;
  for (int64_t unit = group.rank(); unit < heads * packs; unit += group.size()) {
    const int64_t head = RowPacks::quotient(unit, packs),
                  column = (unit - head * packs) * pack_width;
    Pack values;
    load_pack(from.view, from.first + head * from.stride + column, width - column, values);
    store_pack(to.view, to.first + head * to.stride + column, width - column, values);
  }
}

struct LatentRow {
  static constexpr int threads = 256;
  Turn turn;
  LatentSizes s;
  int64_t latent;  // width of kv_a
  View kv, kv_a, key, value;

  explicit LatentRow(const KernelCall& call)
      : turn(call.attributes(), call.attributes().rope_dim, 1),
        s(call.attributes()),
        latent(call.input(1).shape[1]),
        kv(view_of(call.input(0), {s.nope, s.value})),
        kv_a(view_of(call.input(1), {latent, s.rope, turn.half()})),
        key(view_of(call.output(0), {s.nope, s.rope})),
        value(view_of(call.output(1), {s.value})) {}
  int64_t scratch_bytes() const { return turn.scratch_bytes() + s.rope * 4; }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t row) const {
    const float* cosine = turn.angles(group, row);
    float* turned = reinterpret_cast<float*>(group.scratch()) + turn.dim;
    const int i = group.rank() * pack_width;
    if (i < turn.dim / 2) {
      Pack low, high;
      turn.load(kv_a, (row + 1) * latent - s.rope, i, turn.interleaved, low, high);
      turn.turn(cosine, i, low, high);
      for (int j = 0; j < pack_width && i + j < turn.dim / 2; ++j) {
        turned[i + j] = low[j];
        turned[turn.dim / 2 + i + j] = high[j];
      }
    }
    const HeadColumns in{kv, s.kv_head(row, 0), s.nope + s.value},
        out{key, s.key_head(row, 0), s.nope + s.rope};
    copy_heads(group, s.heads, s.nope, in, out);
    copy_heads(group, s.heads, s.value, {kv, in.first + s.nope, in.stride},
               {value, s.value_head(row, 0), s.value});
    group.sync();
    const int packs = (turn.dim + pack_width - 1) / pack_width;
    for (int64_t unit = group.rank(); unit < s.heads * packs; unit += group.size()) {
      const int64_t column = unit % packs * pack_width;
      Pack values;
      for (int j = 0; j < pack_width; ++j)
        values[j] = column + j < s.rope ? turned[column + j] : 0.f;
      store_pack(key, out.first + unit / packs * out.stride + s.nope + column, s.rope - column,
                 values);
    }
  }
};

struct MlaKeyValueKernel {
  static constexpr OpKind kind = OpKind::mla_key_value;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    launch(LatentRow(call), call.input(0).shape[0]);
  }
};

// The shared part's gradient: runs of heads are summed beside each other, then those sums, then
// the turn is undone.
struct LatentBackwardRow {
  static constexpr int threads = 256;
  Turn turn;
  LatentSizes s;
  View dkey, dvalue, dkv, drope;

  explicit LatentBackwardRow(const KernelCall& call)
      : turn(call.attributes(), call.attributes().rope_dim, -1),
        s(call.attributes()),
        dkey(view_of(call.input(0), {s.nope, s.rope})),
        dvalue(view_of(call.input(1), {s.value})),
        dkv(view_of(call.output(0), {s.nope, s.value})),
        drope(view_of(call.output(1), {s.rope, turn.half()})) {}
  int64_t scratch_bytes() const { return turn.scratch_bytes() + threads * 4; }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t row) const {
    const float* cosine = turn.angles(group, row);
    float* sums = reinterpret_cast<float*>(group.scratch()) + turn.dim;
    const HeadColumns in{dkey, s.key_head(row, 0), s.nope + s.rope},
        out{dkv, s.kv_head(row, 0), s.nope + s.value};
    copy_heads(group, s.heads, s.nope, in, out);
    copy_heads(group, s.heads, s.value, {dvalue, s.value_head(row, 0), s.value},
               {dkv, out.first + s.nope, out.stride});

    const int runs = group.size() / turn.dim, run = group.rank() / turn.dim,
              column = group.rank() % turn.dim;
    const int64_t in_run = (s.heads + runs - 1) / runs, begin = run * in_run,
                  end = begin + in_run < s.heads ? begin + in_run : s.heads;
    float sum = 0;
    for (int64_t head = begin; run < runs && head < end; ++head)
      sum += load_one(dkey, in.first + head * in.stride + s.nope + column);
    sums[group.rank()] = sum;
    group.sync();
    for (int r = 1; r < runs && run == 0; ++r)
      sum += sums[r * turn.dim + column];
    if (run == 0) sums[column] = sum;
    group.sync();

    const int i = group.rank() * pack_width;
    if (i >= turn.dim / 2) return;
    Pack low = {}, high = {};
    for (int j = 0; j < pack_width && i + j < turn.dim / 2; ++j) {
      low[j] = sums[i + j];
      high[j] = sums[turn.dim / 2 + i + j];
    }
    turn.turn(cosine, i, low, high);
    turn.store(drope, row * s.rope, i, turn.interleaved, low, high);
  }
};

struct MlaKeyValueBackwardKernel {
  static constexpr OpKind kind = OpKind::mla_key_value_backward;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    launch(LatentBackwardRow(call), call.input(0).shape[0]);
  }
};

}  // namespace spillway
