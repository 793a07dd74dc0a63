// attention_backward: P = exp(scale Q K^T - lse), D = rowsum(dO o), dS = scale P (dO V^T - D);
// dV = P^T dO, dK = dS^T Q, dQ = dS K. One pass owns tiles of keys and adds over queries, one owns
// tiles of queries and adds over keys: scores are made twice, and no sum needs atomics.
#pragma once

#include "harness/cuda/ops/attention_tile.cuh"

namespace spillway {

// D of one row and head; a warp each.
struct AttentionRowProducts : NoScratch {
  static constexpr int threads = 32;
  int64_t width;
  View o, dout;
  float* products;

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t row) const {
    float sum = 0;
    for (int64_t c = group.rank() * pack_width; c < width; c += group.size() * pack_width) {
      Pack a, b;
      load_pack(o, row * width + c, width - c, a);
      load_pack(dout, row * width + c, width - c, b);
      SPILLWAY_UNROLL
      for (int i = 0; i < pack_width; ++i)
        sum += a[i] * b[i];
    }
    sum = group.sum(sum);
    if (group.rank() == 0) products[row] = sum;
  }
};

// Operands of both passes.
struct AttentionGradient {
  static constexpr int threads = tile_threads;
  AttentionShape s;
  View q, k, v, dout, dq, dk, dv;
  const float *lse, *products;

  explicit AttentionGradient(const KernelCall& call)
      : s(call.attributes()),
        q(view_of(call.input(0))),
        k(view_of(call.input(1))),
        v(view_of(call.input(2))),
        dout(view_of(call.input(5))),
        dq(view_of(call.output(0))),
        dk(view_of(call.output(1))),
        dv(view_of(call.output(2))),
        lse(call.input(4).as<float>()),
        products(reinterpret_cast<const float*>(call.workspace)) {}
  static int64_t scratch_bytes() { return 4 * (tile_scratch + square_floats); }

  // One head of queries and its head of keys.
  struct Heads {
    HeadRowsView queries, keys, values, gradients;
    int64_t sequence, head;
  };
  SPILLWAY_DEVICE Heads heads_of(int64_t sequence, int64_t head) const {
    const int64_t kv_head = head / s.group();
    return {head_rows_view(q, s, sequence, head, s.heads, s.head_dim),
            head_rows_view(k, s, sequence, kv_head, s.kv_heads, s.head_dim),
            head_rows_view(v, s, sequence, kv_head, s.kv_heads, s.value_dim),
            head_rows_view(dout, s, sequence, head, s.heads, s.value_dim),
            sequence,
            head};
  }

  // P and dS of a pair of tiles, each thread its 4 x 4.
  template <class Group>
  SPILLWAY_DEVICE void probabilities(const Group& group, float* scratch, const Heads& h,
                                     int64_t query, int64_t key, TileSum& p, TileSum& ds) const {
    add_rows_by_rows(group, scratch, h.queries, query, h.keys, key, p);
    add_rows_by_rows(group, scratch, h.gradients, query, h.values, key, ds);
    const int64_t row = query + group.rank() / 16 * 4, column = key + group.rank() % 16 * 4;
    for (int r = 0; r < 4; ++r) {
      const bool inside = row + r < s.seq;
      const int64_t at = (h.sequence * s.seq + row + r) * s.heads + h.head;
      const float row_lse = inside ? lse[at] : 0.f, row_product = inside ? products[at] : 0.f;
      for (int c = 0; c < 4; ++c) {
        const bool seen = sees(s, row + r, column + c);
        p[r][c] = seen ? expf(p[r][c] * s.scale - row_lse) : 0.f;
        ds[r][c] = seen ? p[r][c] * (ds[r][c] - row_product) * s.scale : 0.f;
      }
    }
  }
};

// dK and dV of 64 keys of one head: over the queries that see them, head of the group after head.
// KeyParts and ValueParts: at least head_dim / 64 and value_dim / 64.
template <int KeyParts, int ValueParts>
struct AttentionKeyGradient : AttentionGradient {
  explicit AttentionKeyGradient(const KernelCall& call) : AttentionGradient(call) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    auto* scratch = reinterpret_cast<float*>(group.scratch());
    float* square = scratch + tile_scratch;
    const int64_t all_heads = s.batch * s.kv_heads, sequence = tile % all_heads / s.kv_heads,
                  kv_head = tile % s.kv_heads, key = tile / all_heads * tile_size;
    TileSum sum_k[KeyParts] = {}, sum_v[ValueParts] = {};
    for (int64_t head = kv_head * s.group(); head < (kv_head + 1) * s.group(); ++head) {
      const Heads h = heads_of(sequence, head);
      for (int64_t query = key; query < s.seq; query += tile_size) {
        TileSum p = {}, ds = {};
        probabilities(group, scratch, h, query, key, p, ds);
        put_square(group, square, p);
        SPILLWAY_UNROLL
        for (int part = 0; part < ValueParts; ++part)
          if (part * tile_size < s.value_dim)
            add_square_by_rows(group, scratch, square, true, h.gradients, query, part * tile_size,
                               sum_v[part]);
        put_square(group, square, ds);
        SPILLWAY_UNROLL
        for (int part = 0; part < KeyParts; ++part)
          if (part * tile_size < s.head_dim)
            add_square_by_rows(group, scratch, square, true, h.queries, query, part * tile_size,
                               sum_k[part]);
      }
    }
    const HeadRowsView to_k = head_rows_view(dk, s, sequence, kv_head, s.kv_heads, s.head_dim),
                       to_v = head_rows_view(dv, s, sequence, kv_head, s.kv_heads, s.value_dim);
    SPILLWAY_UNROLL
    for (int part = 0; part < KeyParts; ++part)
      store_part(group, to_k, key, part * tile_size, sum_k[part]);
    SPILLWAY_UNROLL
    for (int part = 0; part < ValueParts; ++part)
      store_part(group, to_v, key, part * tile_size, sum_v[part]);
  }
};

// dQ of 64 queries of one head: over the keys they see.
template <int Parts>
struct AttentionQueryGradient : AttentionGradient {
  explicit AttentionQueryGradient(const KernelCall& call) : AttentionGradient(call) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    auto* scratch = reinterpret_cast<float*>(group.scratch());
    float* square = scratch + tile_scratch;
    const int64_t all_heads = s.batch * s.heads, sequence = tile % all_heads / s.heads,
                  head = tile % s.heads,
                  query = (s.tiles - 1 - tile / all_heads) * tile_size;  // the longest first
    const Heads h = heads_of(sequence, head);
    TileSum sum[Parts] = {};
    for (int64_t key = 0; key <= query; key += tile_size) {
      TileSum p = {}, ds = {};
      probabilities(group, scratch, h, query, key, p, ds);
      put_square(group, square, ds);
      SPILLWAY_UNROLL
      for (int part = 0; part < Parts; ++part)
        if (part * tile_size < s.head_dim)
          add_square_by_rows(group, scratch, square, false, h.keys, key, part * tile_size,
                             sum[part]);
    }
    const HeadRowsView to = head_rows_view(dq, s, sequence, head, s.heads, s.head_dim);
    SPILLWAY_UNROLL
    for (int part = 0; part < Parts; ++part)
      store_part(group, to, query, part * tile_size, sum[part]);
  }
};

struct AttentionBackwardKernel {
  static constexpr OpKind kind = OpKind::attention_backward;
  static int64_t workspace_bytes(const Program&, const Op& op) {
    return op.attributes.batch * op.attributes.seq * op.attributes.heads * 4;
  }

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const AttentionShape s(call.attributes());
    const AttentionRowProducts products{{},
                                        s.value_dim,
                                        view_of(call.input(3), {s.value_dim}),
                                        view_of(call.input(5), {s.value_dim}),
                                        reinterpret_cast<float*>(call.workspace)};
    launch(products, s.batch * s.seq * s.heads);
    const bool usual = s.value_dim <= AttentionShape::columns_of(2);
    if (usual && s.head_dim <= AttentionShape::columns_of(2)) {
      gradients<2, 2>(call, launch, s);
    } else if (usual && s.head_dim <= AttentionShape::columns_of(3)) {
      gradients<3, 2>(call, launch, s);
    } else {
      gradients<AttentionShape::most_parts, AttentionShape::most_parts>(call, launch, s);
    }
  }

  template <int KeyParts, int ValueParts, class Launch>
  static void gradients(const KernelCall& call, const Launch& launch, const AttentionShape& s) {
    launch(AttentionKeyGradient<KeyParts, ValueParts>(call), s.batch * s.kv_heads * s.tiles);
    launch(AttentionQueryGradient<KeyParts>(call), s.batch * s.heads * s.tiles);
  }
};

}  // namespace spillway
