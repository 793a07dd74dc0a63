// Counting by formula. Where a formula has two conventions (attention halved for the causal mask or
// not) both are given; recomputation, optimizer, norms and rotations are never counted.
#include "workloads/accounting.h"

#include <utility>

#include "harness/error.h"
#include "harness/ops.h"
#include "workloads/checked.h"

namespace spillway {
namespace {

constexpr int64_t bf16_bytes = 2, f32_bytes = 4;

// Sizes of one point. D hidden, F intermediate, V vocabulary, L layers; T = batch * seq rows.
struct Sizes {
  int64_t batch, seq, rows;
  int64_t D, F, V, L;
  int64_t q_width, kv_width;  // heads * head_dim, kv heads * head_dim
};

Sizes sizes_of(const ModelConfig& config, int64_t micro_batch, int64_t seq) {
  for (const auto& [name, value] : {std::pair{"micro-batch", micro_batch}, std::pair{"seq", seq}})
    if (value < 1) throw InputError(text(name, ": found ", value, ", expected at least 1"));
  return {micro_batch,
          seq,
          checked_product("micro-batch * seq", {micro_batch, seq}),
          config.hidden_size,
          config.intermediate_size,
          config.vocab_size,
          config.layers,
          checked_product("query width", {config.heads, config.head_dim}),
          checked_product("key width", {config.kv_heads, config.head_dim})};
}

// Elements of the matrices of all layers: Q and O, K and V, gate, up and down.
int64_t layer_matrix_elements(const Sizes& s) {
  const char* what = "parameters";
  const int64_t one = checked_sum(
      what, {checked_product(what, {2, s.D, s.q_width}),
             checked_product(what, {2, s.D, s.kv_width}), checked_product(what, {3, s.D, s.F})});
  return checked_product(what, {s.L, one});
}

int64_t parameters(const ModelConfig& config, const Sizes& s) {
  const char* what = "parameters";
  const int64_t tables = config.tie_word_embeddings ? 1 : 2;  // embedding and head
  const int64_t norms = checked_product(what, {checked_sum(what, {2 * s.L, 1}), s.D});
  return checked_sum(what,
                     {layer_matrix_elements(s), norms, checked_product(what, {tables, s.V, s.D})});
}

// 6 a matmul weight and token: 2 forward, 4 backward. The head counts, the look-up does not.
int64_t matmul_flops(const Sizes& s) {
  const char* what = "FLOPs of a step";
  const int64_t head = checked_product(what, {s.V, s.D});
  return checked_product(what, {6, s.rows, checked_sum(what, {layer_matrix_elements(s), head})});
}

// Scores and weighted sum, 4 b s^2 H h forward and twice that backward, halved by the causal mask.
int64_t causal_attention_flops(const Sizes& s) {
  return checked_product("FLOPs of a step", {6, s.L, s.batch, s.seq, s.seq, s.q_width});
}

std::vector<ActivationSize> activation_sizes(const ModelConfig& config, const Sizes& s) {
  const auto bf16 = [&](int64_t width) {
    return checked_product("activation bytes", {bf16_bytes, s.rows, width});
  };
  const int64_t log_sum_exp =
      checked_product("activation bytes", {f32_bytes, s.rows, config.heads});
  const std::vector<std::pair<const char*, int64_t>> bytes = {
      {"decoder_layer_input", bf16(s.D)},
      {"query_proj", bf16(s.q_width)},
      {"key_proj", bf16(s.kv_width)},
      {"value_proj", bf16(s.kv_width)},
      {"context", checked_sum("activation bytes", {bf16(s.q_width), log_sum_exp})},
      {"attention_out", bf16(s.q_width)},
      {"out_proj", bf16(s.D)},
      {"mlpwi_0", bf16(s.F)},
      {"mlpwi_1", bf16(s.F)},
      {"mlpwo", bf16(s.D)}};
  std::vector<ActivationSize> sizes;
  for (const auto& [name, size] : bytes)
    sizes.push_back({"layers", s.L, name, size});
  return sizes;
}

}  // namespace

ModelAccount account(const ModelConfig& config, int64_t micro_batch, int64_t seq) {
  const Sizes s = sizes_of(config, micro_batch, seq);
  const char* bytes = "activation bytes";
  ModelAccount account;
  account.params_total = account.params_active = parameters(config, s);
  account.dense_layers = s.L;
  account.head_dim = config.head_dim;
  account.kv_heads = config.kv_heads;
  account.q_bytes = checked_product(bytes, {bf16_bytes, s.rows, s.q_width});
  account.k_bytes = account.v_bytes = checked_product(bytes, {bf16_bytes, s.rows, s.kv_width});
  account.qkv_bytes_per_layer =
      checked_sum(bytes, {account.q_bytes, account.k_bytes, account.v_bytes});
  account.qkv_bytes_all_layers = checked_product(bytes, {s.L, account.qkv_bytes_per_layer});
  const int64_t matmul = matmul_flops(s), attention = causal_attention_flops(s);
  account.flops_step_causal = checked_sum("FLOPs of a step", {matmul, attention});
  account.flops_step_full = checked_sum("FLOPs of a step", {matmul, attention, attention});
  account.activations = activation_sizes(config, s);
  return account;
}

ExecutedFlops executed_flops(const Program& program) {
  ExecutedFlops flops;
  for (const Segment& segment : program.segments) {
    const auto trips = static_cast<double>(segment.trips);
    for (const Op& op : segment.ops) {
      const OpCost cost = info(op.kind).cost(program, op);
      flops.matmul += trips * (cost.matmul_flops + cost.attention_flops);
      flops.attention_backward_extra += trips * cost.attention_extra_flops;
    }
  }
  return flops;
}

}  // namespace spillway
