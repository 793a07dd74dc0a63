// attention: a group of threads takes 64 queries of one head, with a running maximum and sum over
// tiles of keys (Dao et al., "FlashAttention-2", algorithm 1).
#pragma once

#include "harness/cuda/ops/attention_tile.cuh"

namespace spillway {

// Parts: at least value_dim / 64.
template <int Parts>
struct AttentionTile {
  static constexpr int threads = tile_threads, parts = Parts;
  static constexpr int row_stride = 17;  // 16 threads share a row
  AttentionShape s;
  View q, k, v, o;
  float* lse;

  explicit AttentionTile(const KernelCall& call)
      : s(call.attributes()),
        q(view_of(call.input(0))),
        k(view_of(call.input(1))),
        v(view_of(call.input(2))),
        o(view_of(call.output(0))),
        lse(call.output(1).as<float>()) {}
  static int64_t scratch_bytes() {
    return 4 * (tile_scratch + square_floats + tile_size * row_stride);
  }

  // What a thread holds of its four rows. `sum` is over its own columns only.
  struct Rows {
    float largest[4], sum[4];
    TileSum o[parts];
  };

  // Turns scores into exp(score - maximum of the row so far), zero where masked, and scales what
  // was summed before down.
  template <class Group>
  SPILLWAY_DEVICE void soften(const Group& group, float* of_threads, int64_t query, int64_t key,
                              TileSum& x, Rows& own) const {
    const int row = group.rank() / 16 * 4, column = group.rank() % 16;
    for (int r = 0; r < 4; ++r) {
      float most = -INFINITY;
      for (int c = 0; c < 4; ++c) {
        x[r][c] = sees(s, query + row + r, key + column * 4 + c) ? x[r][c] * s.scale : -INFINITY;
        most = fmaxf(most, x[r][c]);
      }
      of_threads[(row + r) * row_stride + column] = most;
    }
    group.sync();
    for (int r = 0; r < 4; ++r) {
      float now = own.largest[r];
      for (int c = 0; c < 16; ++c)
        now = fmaxf(now, of_threads[(row + r) * row_stride + c]);
      const float shrink = own.largest[r] == now ? 1.f : expf(own.largest[r] - now);
      own.largest[r] = now;
      own.sum[r] *= shrink;
      for (int c = 0; c < 4; ++c) {
        x[r][c] = x[r][c] == -INFINITY ? 0.f : expf(x[r][c] - now);
        own.sum[r] += x[r][c];
      }
      SPILLWAY_UNROLL
      for (int part = 0; part < parts; ++part)
        for (int c = 0; c < 4; ++c)
          own.o[part][r][c] *= shrink;
    }
  }

  template <class Group>
  SPILLWAY_DEVICE void finish(const Group& group, float* of_threads, const HeadRowsView& to,
                              int64_t sequence, int64_t head, int64_t query, Rows& own) const {
    const int row = group.rank() / 16 * 4, column = group.rank() % 16;
    group.sync();
    for (int r = 0; r < 4; ++r)
      of_threads[(row + r) * row_stride + column] = own.sum[r];
    group.sync();
    for (int r = 0; r < 4; ++r) {
      float sum = 0;
      for (int c = 0; c < 16; ++c)
        sum += of_threads[(row + r) * row_stride + c];
      SPILLWAY_UNROLL
      for (int part = 0; part < parts; ++part)
        for (int c = 0; c < 4; ++c)
          own.o[part][r][c] /= sum;
      const int64_t t = query + row + r;
      if (column == 0 && t < s.seq)
        lse[(sequence * s.seq + t) * s.heads + head] = own.largest[r] + logf(sum);
    }
    SPILLWAY_UNROLL
    for (int part = 0; part < parts; ++part)
      if (part * tile_size < s.value_dim)
        store_part(group, to, query, part * tile_size, own.o[part]);
  }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    auto* scratch = reinterpret_cast<float*>(group.scratch());
    float *square = scratch + tile_scratch, *of_threads = square + square_floats;
    const int64_t all_heads = s.batch * s.heads, sequence = tile % all_heads / s.heads,
                  head = tile % s.heads, kv_head = head / s.group(),
                  query = (s.tiles - 1 - tile / all_heads) * tile_size;  // the longest first
    const HeadRowsView queries = head_rows_view(q, s, sequence, head, s.heads, s.head_dim),
                       keys = head_rows_view(k, s, sequence, kv_head, s.kv_heads, s.head_dim),
                       values = head_rows_view(v, s, sequence, kv_head, s.kv_heads, s.value_dim),
                       out = head_rows_view(o, s, sequence, head, s.heads, s.value_dim);
    Rows own = {};
    for (float& largest : own.largest)
      largest = -INFINITY;
    for (int64_t key = 0; key <= query; key += tile_size) {
      TileSum scores = {};
      add_rows_by_rows(group, scratch, queries, query, keys, key, scores);
      soften(group, of_threads, query, key, scores, own);
      put_square(group, square, scores);
      SPILLWAY_UNROLL
      for (int part = 0; part < parts; ++part)
        if (part * tile_size < s.value_dim)
          add_square_by_rows(group, scratch, square, false, values, key, part * tile_size,
                             own.o[part]);
    }
    finish(group, of_threads, out, sequence, head, query, own);
  }
};

struct AttentionKernel {
  static constexpr OpKind kind = OpKind::attention;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const AttentionShape s(call.attributes());
    const int64_t tiles = s.batch * s.heads * s.tiles;
    if (s.value_dim <= AttentionShape::columns_of(2)) {
      launch(AttentionTile<2>(call), tiles);
    } else {
      launch(AttentionTile<AttentionShape::most_parts>(call), tiles);
    }
  }
};

}  // namespace spillway
