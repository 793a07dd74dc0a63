// Attention forward, one task a tile of queries of one head: running maximum and sum over tiles of
// keys (Dao et al., "FlashAttention-2", algorithm 1), all in fp32. Key tiles above the diagonal are
// not touched.
#include "harness/ops/attention_kernels.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

constexpr int64_t tile = attention_tile;

// fp32 scratch of one worker.
struct Scratch {
  float *q, *k_transposed, *v, *scores, *o, *row_max, *row_sum;

  explicit Scratch(const AttentionSizes& s)
      : q(row_scratch(4, tile * s.width)),
        k_transposed(row_scratch(5, tile * s.width)),
        v(row_scratch(6, tile * s.value_width)),
        scores(row_scratch(7, tile * tile)),
        o(row_scratch(8, tile * s.value_width)),
        row_max(row_scratch(9, 2 * tile)),
        row_sum(row_max + tile) {}
};

// Turns scores into exp(score - row maximum), zero where masked, updates maximum and sum, and
// scales o down where the maximum rose.
template <class I>
SPILLWAY_INLINE void soften(const AttentionSizes& s, const Scratch& x, int64_t row, int64_t seen,
                            bool first, I isa) {
  float* p = x.scores + row * tile;
  const float before = first ? -INFINITY : x.row_max[row], now = maximum(seen, p, before, isa);
  for (int64_t j = 0; j < tile; ++j)
    p[j] = exp_fast(p[j] - now);
  if (seen < tile) std::fill(p + seen, p + tile, 0.f);
  const float total = sum(tile, p, isa), shrink = first ? 0.f : exp_fast(before - now);
  x.row_max[row] = now;
  x.row_sum[row] = first ? total : x.row_sum[row] * shrink + total;
  if (first || before == now) return;
  float* o = x.o + row * s.value_width;
  for (int64_t d = 0; d < s.value_width; ++d)
    o[d] *= shrink;
}

SPILLWAY_INLINE void finish(const OpCall& call, const AttentionSizes& s, const Scratch& x,
                            int64_t b, int64_t head, int64_t q_tile, int64_t rows) {
  float* lse = call.outputs[1].as<float>();
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = b * s.seq + q_tile * tile + r;
    float* o = x.o + r * s.value_width;
    const float inverse = 1.f / x.row_sum[r];
    for (int64_t d = 0; d < s.value_dim; ++d)
      o[d] *= inverse;
    store(call.outputs[0], row * s.heads * s.value_dim + head * s.value_dim, s.value_dim, o);
    lse[row * s.heads + head] = x.row_max[r] + std::log(x.row_sum[r]);
  }
}

template <class I>
SPILLWAY_INLINE void one_tile(const OpCall& call, const AttentionSizes& s, int64_t b, int64_t head,
                              int64_t q_tile, const Scratch& x, I isa) {
  const int64_t rows = s.rows_of_tile(q_tile), kv_head = head / s.group();
  load_rows(head_rows(call.inputs[0], s, s.head_dim, b, head, q_tile), s.width, rows, x.q);
  for (int64_t i = 0; i < rows * s.width; ++i)
    x.q[i] *= s.scale;
  for (int64_t kv_tile = 0; kv_tile <= q_tile; ++kv_tile) {
    const int64_t keys = s.rows_of_tile(kv_tile);
    load_transposed(head_rows(call.inputs[1], s, s.head_dim, b, kv_head, kv_tile), keys,
                    x.k_transposed);
    load_rows(head_rows(call.inputs[2], s, s.value_dim, b, kv_head, kv_tile), s.value_width, keys,
              x.v);
    tile_product(rows, keys, s.head_dim, left(x.q, s.width, isa), right(x.k_transposed, tile, isa),
                 x.scores, tile, false, isa);
    for (int64_t r = 0; r < rows; ++r)
      soften(s, x, r, visible(q_tile, kv_tile, r, keys), kv_tile == 0, isa);
    tile_product(rows, s.value_dim, keys, left(x.scores, tile, isa), right(x.v, s.value_width, isa),
                 x.o, s.value_width, kv_tile > 0, isa);
  }
  finish(call, s, x, b, head, q_tile, rows);
}

}  // namespace

void attention_forward(const OpCall& call, ThreadPool& pool) {
  const AttentionSizes s = attention_sizes(call.op->attributes);
  const int64_t heads = s.batch * s.heads;
  pool.run(heads * s.tiles, [&](int64_t index, int) {
    const int64_t q_tile = s.tiles - 1 - index / heads, head = index % heads;  // the longest first
    const Scratch scratch(s);
    simd([&](auto isa) SPILLWAY_SIMD {
      one_tile(call, s, head / s.heads, head % s.heads, q_tile, scratch, isa);
    });
  });
}

}  // namespace spillway
