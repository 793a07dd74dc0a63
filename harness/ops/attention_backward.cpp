// Attention backward by tiles: five products a pair of tiles, all in fp32 (Dao et al.,
// "FlashAttention-2", algorithm 2).
//   P = exp(scale Q K^T - lse)   D = rowsum(dO o)   dS = P (dO V^T - D)
//   dV = P^T dO   dK = scale dS^T Q   dQ = scale dS K
// A task is one query head and one strip of key tiles; it owns the sums it makes: dK and dV of the
// strip for this head, and its own share of dQ. A second phase adds shares in a fixed order. No
// atomics; strips, and the heads that are in flight together, depend on the shape alone.
#include "harness/ops/attention_kernels.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

constexpr int64_t tile = attention_tile;
constexpr int64_t scratch_limit = int64_t{256} << 20;  // bytes for the sums of the heads in flight
constexpr int64_t wanted_tasks = 64;

enum Input : size_t { in_q, in_k, in_v, in_o, in_lse, in_do };
enum Output : size_t { out_dq, out_dk, out_dv };

// How the work is cut. Sums of a head: [seq, head_dim] of dQ per strip and of dK, [seq, value_dim]
// of dV.
struct Cut {
  int64_t strips, heads_at_once, sum_floats, value_floats;

  explicit Cut(const AttentionSizes& s)
      : sum_floats(s.seq * s.head_dim), value_floats(s.seq * s.value_dim) {
    const int64_t heads = s.batch * s.heads;
    strips = std::min(s.tiles, (wanted_tasks + heads - 1) / heads);
    heads_at_once = std::clamp<int64_t>(scratch_limit / (head_floats() * 4), 1, heads);
  }
  int64_t head_floats() const { return (strips + 1) * sum_floats + value_floats; }
};

// fp32 scratch of one worker; d is a whole head's.
struct Scratch {
  float *q, *k, *v_transposed, *k_transposed, *dout, *p, *ds, *dk, *dv, *d, *dq;

  explicit Scratch(const AttentionSizes& s)
      : q(row_scratch(4, tile * std::max(s.width, s.value_width))),  // rows of o before
        k(row_scratch(5, 2 * tile * s.width)),
        v_transposed(row_scratch(6, 2 * tile * s.value_width)),
        k_transposed(k + tile * s.width),
        dout(v_transposed + tile * s.value_width),
        p(row_scratch(7, 2 * tile * tile)),
        ds(p + tile * tile),
        dk(row_scratch(8, tile * (s.width + s.value_width))),
        dv(dk + tile * s.width),
        d(row_scratch(9, s.seq)),
        dq(row_scratch(10, tile * s.width)) {}
};

struct HeadSums {
  float *dq, *dk, *dv;  // dq: this strip's share
};

// P and dS of one pair of tiles, in the places of the scores and of dO V^T.
SPILLWAY_INLINE void probabilities(const OpCall& call, const AttentionSizes& s, const Scratch& x,
                                   int64_t b, int64_t head, int64_t q_tile, int64_t kv_tile) {
  const float* lse = call.inputs[in_lse].as<float>();
  const int64_t rows = s.rows_of_tile(q_tile), keys = s.rows_of_tile(kv_tile);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t seen = visible(q_tile, kv_tile, r, keys);
    const float row_lse = lse[(b * s.seq + q_tile * tile + r) * s.heads + head],
                row_d = x.d[q_tile * tile + r];
    float *p = x.p + r * tile, *ds = x.ds + r * tile;
    for (int64_t j = 0; j < tile; ++j) {
      const float probability = exp_fast(p[j] * s.scale - row_lse);
      p[j] = j < seen ? probability : 0.f;
      ds[j] = j < seen ? probability * (ds[j] - row_d) * s.scale : 0.f;
    }
  }
}

// D = rowsum(dO o) of one head, from query tile `first` on.
template <class I>
SPILLWAY_INLINE void row_products(const OpCall& call, const AttentionSizes& s, const Scratch& x,
                                  int64_t b, int64_t head, int64_t first, I isa) {
  for (int64_t q_tile = first; q_tile < s.tiles; ++q_tile) {
    const int64_t rows = s.rows_of_tile(q_tile);
    load_rows(head_rows(call.inputs[in_o], s, s.value_dim, b, head, q_tile), s.value_width, rows,
              x.q);
    load_rows(head_rows(call.inputs[in_do], s, s.value_dim, b, head, q_tile), s.value_width, rows,
              x.dout);
    for (int64_t r = 0; r < rows; ++r) {
      x.d[q_tile * tile + r] =
          dot(s.value_dim, x.q + r * s.value_width, x.dout + r * s.value_width, isa);
    }
  }
}

// sum[rows, dim] (+)= from[rows, width]
SPILLWAY_INLINE void add_rows(const float* from, int64_t width, int64_t dim, int64_t rows,
                              bool accumulate, float* sum) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = 0; d < dim; ++d) {
      const float before = accumulate ? sum[r * dim + d] : 0.f;
      sum[r * dim + d] = before + from[r * width + d];
    }
  }
}

template <class I>
SPILLWAY_INLINE void one_pair(const OpCall& call, const AttentionSizes& s, const Scratch& x,
                              int64_t b, int64_t head, int64_t q_tile, int64_t kv_tile, I isa) {
  const int64_t rows = s.rows_of_tile(q_tile), keys = s.rows_of_tile(kv_tile), width = s.width;
  const auto q_rows = [&](int64_t t) {
    return head_rows(call.inputs[in_q], s, s.head_dim, b, head, t);
  };
  const auto do_rows = [&](int64_t t) {
    return head_rows(call.inputs[in_do], s, s.value_dim, b, head, t);
  };
  load_rows(q_rows(q_tile), width, rows, x.q);
  load_rows(do_rows(q_tile), s.value_width, rows, x.dout);
  if (q_tile + 1 < s.tiles) {
    prefetch_rows(q_rows(q_tile + 1), s.rows_of_tile(q_tile + 1));
    prefetch_rows(do_rows(q_tile + 1), s.rows_of_tile(q_tile + 1));
  }
  tile_product(rows, keys, s.head_dim, left(x.q, width, isa), right(x.k_transposed, tile, isa), x.p,
               tile, false, isa);
  tile_product(rows, keys, s.value_dim, left(x.dout, s.value_width, isa),
               right(x.v_transposed, tile, isa), x.ds, tile, false, isa);
  probabilities(call, s, x, b, head, q_tile, kv_tile);
  const bool later = q_tile > kv_tile;
  tile_product(keys, s.value_dim, rows, left_transposed(x.p, tile, isa),
               right(x.dout, s.value_width, isa), x.dv, s.value_width, later, isa);
  tile_product(keys, s.head_dim, rows, left_transposed(x.ds, tile, isa), right(x.q, width, isa),
               x.dk, width, later, isa);
  tile_product(rows, s.head_dim, keys, left(x.ds, tile, isa), right(x.k, width, isa), x.dq, width,
               false, isa);
}

// Key tiles strip, strip + strips, ...: the causal triangle is shared evenly.
template <class I>
SPILLWAY_INLINE void one_strip(const OpCall& call, const AttentionSizes& s, const Cut& cut,
                               const HeadSums& sums, int64_t b, int64_t head, int64_t strip,
                               I isa) {
  const Scratch x(s);
  row_products(call, s, x, b, head, strip, isa);
  const int64_t kv_head = head / s.group();
  for (int64_t kv_tile = strip; kv_tile < s.tiles; kv_tile += cut.strips) {
    const int64_t keys = s.rows_of_tile(kv_tile);
    const HeadRows k = head_rows(call.inputs[in_k], s, s.head_dim, b, kv_head, kv_tile);
    load_rows(k, s.width, keys, x.k);
    load_transposed(k, keys, x.k_transposed);
    load_transposed(head_rows(call.inputs[in_v], s, s.value_dim, b, kv_head, kv_tile), keys,
                    x.v_transposed);
    for (int64_t q_tile = kv_tile; q_tile < s.tiles; ++q_tile) {
      one_pair(call, s, x, b, head, q_tile, kv_tile, isa);
      add_rows(x.dq, s.width, s.head_dim, s.rows_of_tile(q_tile), kv_tile != strip,
               sums.dq + q_tile * tile * s.head_dim);
    }
    add_rows(x.dk, s.width, s.head_dim, keys, false, sums.dk + kv_tile * tile * s.head_dim);
    add_rows(x.dv, s.value_width, s.value_dim, keys, false, sums.dv + kv_tile * tile * s.value_dim);
  }
}

// The sums of the heads in flight, and those of a group of query heads that began in an earlier
// batch.
struct Sums {
  const AttentionSizes& s;
  const Cut& cut;
  float *carried, *heads;

  Sums(const AttentionSizes& sizes, const Cut& c)
      : s(sizes),
        cut(c),
        carried(row_scratch(11, c.sum_floats + c.value_floats + c.heads_at_once * c.head_floats())),
        heads(carried + c.sum_floats + c.value_floats) {}

  HeadSums of(int64_t slot, int64_t strip) const {
    float* base = heads + slot * cut.head_floats();
    return {base + strip * cut.sum_floats, base + cut.strips * cut.sum_floats,
            base + (cut.strips + 1) * cut.sum_floats};
  }
};

// dQ of one head and one tile of rows: strip after strip; strip c has nothing for query tiles
// before c.
SPILLWAY_INLINE void reduce_dq(const OpCall& call, const Sums& sums, int64_t first_head,
                               int64_t slot, int64_t q_tile) {
  const AttentionSizes& s = sums.s;
  const int64_t head = first_head + slot, floats = s.rows_of_tile(q_tile) * s.head_dim;
  float* total = sums.of(slot, 0).dq + q_tile * tile * s.head_dim;
  for (int64_t strip = 1; strip < std::min(sums.cut.strips, q_tile + 1); ++strip) {
    const float* share = sums.of(slot, strip).dq + q_tile * tile * s.head_dim;
    for (int64_t i = 0; i < floats; ++i)
      total[i] += share[i];
  }
  const int64_t first_row = head / s.heads * s.seq + q_tile * tile;
  for (int64_t r = 0; r < s.rows_of_tile(q_tile); ++r) {
    store(call.outputs[out_dq], ((first_row + r) * s.heads + head % s.heads) * s.head_dim,
          s.head_dim, total + r * s.head_dim);
  }
}

// dK or dV of the key heads whose groups have heads in [first_head, first_head + count), one tile
// of rows: heads in their order; a group that goes on in the next batch is carried over.
SPILLWAY_INLINE void reduce_dkv(const OpCall& call, const Sums& sums, int64_t first_head,
                                int64_t count, int64_t kv_tile, Output which) {
  const AttentionSizes& s = sums.s;
  const int64_t dim = which == out_dv ? s.value_dim : s.head_dim;
  const int64_t rows = s.rows_of_tile(kv_tile), floats = rows * dim, at = kv_tile * tile * dim;
  float* carried = sums.carried + (which == out_dv ? sums.cut.sum_floats : 0) + at;
  for (int64_t slot = 0; slot < count; ++slot) {
    const int64_t head = first_head + slot;
    const float* share = (which == out_dk ? sums.of(slot, 0).dk : sums.of(slot, 0).dv) + at;
    if (head % s.group() == 0) std::fill_n(carried, floats, 0.f);
    for (int64_t i = 0; i < floats; ++i)
      carried[i] += share[i];
    if ((head + 1) % s.group() != 0) continue;
    const int64_t kv = head % s.heads / s.group(),
                  first_row = head / s.heads * s.seq + kv_tile * tile;
    for (int64_t r = 0; r < rows; ++r) {
      store(call.outputs[which], ((first_row + r) * s.kv_heads + kv) * dim, dim, carried + r * dim);
    }
  }
}

void run_heads(const OpCall& call, ThreadPool& pool, const Sums& sums, int64_t first_head,
               int64_t count) {
  const AttentionSizes& s = sums.s;
  const int64_t strips = sums.cut.strips;
  pool.run(count * strips, [&](int64_t index, int) {
    const int64_t slot = index % count, strip = index / count, head = first_head + slot;
    simd([&](auto isa) SPILLWAY_SIMD {
      one_strip(call, s, sums.cut, sums.of(slot, strip), head / s.heads, head % s.heads, strip,
                isa);
    });
  });
  pool.run((count + 2) * s.tiles, [&](int64_t index, int) {
    const int64_t row_tile = index % s.tiles, part = index / s.tiles;
    simd([&](auto) SPILLWAY_SIMD {
      if (part < 2) {
        reduce_dkv(call, sums, first_head, count, row_tile, part == 0 ? out_dk : out_dv);
      } else {
        reduce_dq(call, sums, first_head, part - 2, row_tile);
      }
    });
  });
}

}  // namespace

void attention_backward(const OpCall& call, ThreadPool& pool) {
  const AttentionSizes s = attention_sizes(call.op->attributes);
  const Cut cut(s);
  const Sums sums(s, cut);
  for (int64_t first = 0; first < s.batch * s.heads; first += cut.heads_at_once) {
    run_heads(call, pool, sums, first, std::min(cut.heads_at_once, s.batch * s.heads - first));
  }
}

}  // namespace spillway
