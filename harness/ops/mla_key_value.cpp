// Keys and values of latent attention (MLA) from what its two projections give.
//   mla_key_value {kv[T, H * (n + v)], kv_a[T, C]} -> {key[T, H * (n + r)], value[T, H * v]}
// A head of kv is n columns of key and v of value. The last r columns of kv_a are the part of the
// key that all heads share: turned as rope does it, then set behind each head's n columns.
//   mla_key_value_backward {dkey, dvalue} -> {dkv[T, H * (n + v)], drope[T, r]}
// drope, the gradient of the last r columns of kv_a, is summed over heads in fp32, then turned
// back.
// Attributes: heads (H), head_dim (n + r), rope_dim (r), value_dim (v), seq, rope, interleaved.
#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"
#include "harness/ops/rope.h"

namespace spillway {
namespace {

struct Sizes {
  int64_t heads, nope, rope, value;

  int64_t kv() const { return heads * (nope + value); }
  int64_t key() const { return heads * (nope + rope); }
  int64_t values() const { return heads * value; }
};

Sizes sizes_of(const Attributes& a) {
  return {a.heads, a.head_dim - a.rope_dim, a.rope_dim, a.value_dim};
}

std::string check_sizes(const Op& op, const Signature& s) {
  if (!s.error.empty()) return s.error;
  const Attributes& a = op.attributes;
  const std::string positive = require_positive({{"heads", a.heads},
                                                 {"head_dim", a.head_dim},
                                                 {"rope_dim", a.rope_dim},
                                                 {"value_dim", a.value_dim},
                                                 {"seq", a.seq}});
  if (!positive.empty()) return positive;
  if (a.rope_dim % 2 != 0 || a.rope_dim > a.head_dim) {
    return text("attribute rope_dim is ", a.rope_dim,
                ", expected an even number up to head_dim = ", a.head_dim);
  }
  if (s["T"] % a.seq != 0)
    return text("has ", s["T"], " rows, expected a multiple of seq = ", a.seq);
  const Sizes sizes = sizes_of(a);
  if (s["KV"] != sizes.kv())
    return text("kv has width ", s["KV"], ", expected heads * (nope + value_dim) = ", sizes.kv());
  if (s["K"] != sizes.key())
    return text("key has width ", s["K"], ", expected heads * head_dim = ", sizes.key());
  if (s["V"] != sizes.values())
    return text("value has width ", s["V"], ", expected heads * value_dim = ", sizes.values());
  return require_distinct(op);
}

std::string check_forward(const Program& program, const Op& op) {
  const Signature s = match(program, op, "kv[T,KV]:x kv_a[T,C]:x -> key[T,K]:x value[T,V]:x");
  const std::string error = check_sizes(op, s);
  if (!error.empty()) return error;
  if (s["C"] >= op.attributes.rope_dim) return "";
  return text("kv_a has width ", s["C"], ", expected at least rope_dim = ", op.attributes.rope_dim);
}

std::string check_backward(const Program& program, const Op& op) {
  const Signature s = match(program, op, "dkey[T,K]:x dvalue[T,V]:x -> dkv[T,KV]:x drope[T,R]:x");
  const std::string error = check_sizes(op, s);
  if (!error.empty()) return error;
  if (s["R"] == op.attributes.rope_dim) return "";
  return text("drope has width ", s["R"], ", expected rope_dim = ", op.attributes.rope_dim);
}

// Of kv_a only the rope key is read.
OpCost cost_forward(const Program& program, const Op& op) {
  const Shape whole = shape_of(program, op.inputs[1]);
  const int64_t unread = whole[0] * (whole[1] - op.attributes.rope_dim) *
                         bytes_of(program.at(op.inputs[1].tensor).dtype);
  return {.bytes = touched_bytes(program, op) - static_cast<double>(unread)};
}

OpCost cost_backward(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

// fp32 rows of one worker; `turned` and `pairs` hold one rope key.
struct Rows {
  float *kv, *key, *value, *rope, *turned, *pairs;

  explicit Rows(const Sizes& s)
      : kv(row_scratch(0, s.kv())),
        key(row_scratch(1, s.key())),
        value(row_scratch(2, s.values())),
        rope(row_scratch(3, s.rope)),
        turned(row_scratch(4, s.rope)),
        pairs(row_scratch(5, s.rope)) {}
};

void run_forward(const OpCall& call, ThreadPool& pool) {
  const Attributes& a = call.op->attributes;
  const Sizes s = sizes_of(a);
  const auto table = rope_table(a);
  const int64_t latent = call.inputs[1].shape[1];
  const auto one_row = [&](int64_t t) SPILLWAY_SIMD {
    const Rows x(s);
    load(call.inputs[0], t * s.kv(), s.kv(), x.kv);
    load(call.inputs[1], (t + 1) * latent - s.rope, s.rope, x.rope);
    turn(*table, t % a.seq, a.interleaved, 1, x.rope, x.pairs, x.turned);
    for (int64_t h = 0; h < s.heads; ++h) {
      const float* head = x.kv + h * (s.nope + s.value);
      float* key = x.key + h * (s.nope + s.rope);
      std::copy_n(head, s.nope, key);
      std::copy_n(x.turned, s.rope, key + s.nope);
      std::copy_n(head + s.nope, s.value, x.value + h * s.value);
    }
    store(call.outputs[0], t * s.key(), s.key(), x.key);
    store(call.outputs[1], t * s.values(), s.values(), x.value);
  };
  for_blocks(pool, call.inputs[0].shape[0], rows_per_block(s.kv()),
             [&](int64_t first, int64_t count) {
               simd([&](auto) SPILLWAY_SIMD {
                 for (int64_t t = first; t < first + count; ++t)
                   one_row(t);
               });
             });
}

void run_backward(const OpCall& call, ThreadPool& pool) {
  const Attributes& a = call.op->attributes;
  const Sizes s = sizes_of(a);
  const auto table = rope_table(a);
  const auto one_row = [&](int64_t t) SPILLWAY_SIMD {
    const Rows x(s);
    load(call.inputs[0], t * s.key(), s.key(), x.key);
    load(call.inputs[1], t * s.values(), s.values(), x.value);
    std::fill_n(x.rope, s.rope, 0.f);
    for (int64_t h = 0; h < s.heads; ++h) {
      const float *key = x.key + h * (s.nope + s.rope), *shared = key + s.nope;
      float* head = x.kv + h * (s.nope + s.value);
      std::copy_n(key, s.nope, head);
      std::copy_n(x.value + h * s.value, s.value, head + s.nope);
      for (int64_t d = 0; d < s.rope; ++d)
        x.rope[d] += shared[d];
    }
    turn(*table, t % a.seq, a.interleaved, -1, x.rope, x.pairs, x.turned);
    store(call.outputs[0], t * s.kv(), s.kv(), x.kv);
    store(call.outputs[1], t * s.rope, s.rope, x.turned);
  };
  for_blocks(pool, call.inputs[0].shape[0], rows_per_block(s.kv()),
             [&](int64_t first, int64_t count) {
               simd([&](auto) SPILLWAY_SIMD {
                 for (int64_t t = first; t < first + count; ++t)
                   one_row(t);
               });
             });
}

}  // namespace

const OpInfo mla_key_value_info = {
    OpKind::mla_key_value,
    "mla_key_value",
    Lane::compute,
    "keys with the shared rope part, and values, of latent attention",
    check_forward,
    cost_forward,
    run_forward};
const OpInfo mla_key_value_backward_info = {OpKind::mla_key_value_backward,
                                            "mla_key_value_backward",
                                            Lane::compute,
                                            "gradients of mla_key_value",
                                            check_backward,
                                            cost_backward,
                                            run_backward};

}  // namespace spillway
