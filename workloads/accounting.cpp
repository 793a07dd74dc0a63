// Counting by formula. Where a formula has two conventions (attention halved for the causal mask or
// not) both are given; recomputation, optimizer, norms, rotations and the choice of experts are
// never counted.
#include "workloads/accounting.h"

#include <utility>

#include "harness/error.h"
#include "harness/ops.h"
#include "workloads/accounting_parts.h"
#include "workloads/checked.h"

namespace spillway {
namespace {

// 6 a matmul weight and token: 2 forward, 4 backward. The head counts, the look-up does not. Scores
// and weighted sum are 2 b s^2 H (head size of q and k + that of v) forward and twice that backward,
// halved by the causal mask.
std::vector<FlopPart> flop_parts(const ModelConfig& config, const Sizes& s) {
  const char* what = "FLOPs of a step";
  std::vector<FlopPart> parts;
  for (const WeightPart& part : weight_parts(config))
    parts.push_back({part.name, checked_product(what, {6, s.rows, part.layers, part.used})});
  const int64_t width = checked_sum(what, {s.q_width, s.context_width});
  parts.push_back({"attention", checked_product(what, {3, s.L, s.batch, s.seq, s.seq, width})});
  return parts;
}

void count_flops(const ModelConfig& config, const Sizes& s, ModelAccount& account) {
  account.flops = flop_parts(config, s);
  int64_t causal = 0;
  for (const FlopPart& part : account.flops)
    causal = checked_sum("FLOPs of a step", {causal, part.flops});
  account.flops_step_causal = causal;
  account.flops_step_full = checked_sum("FLOPs of a step", {causal, account.flops.back().flops});
}

void count_parameters(const ModelConfig& config, ModelAccount& account) {
  const Parameters parameters = parameters_of(config);
  account.params_total = parameters.total;
  account.params_active = parameters.active;
  if (config.mtp_layers == 0) return;
  account.mtp_unique = parameters.mtp_unique;
  account.total_with_mtp_stored =
      checked_sum("parameters", {parameters.total, parameters.mtp_unique, parameters.mtp_copies});
}

void count_bytes(const ModelConfig& config, const Sizes& s, ModelAccount& account) {
  const char* what = "activation bytes";
  const auto bytes = [&](int64_t width) {
    return checked_product(what, {bf16_bytes, s.rows, width});
  };
  account.q_bytes = bytes(s.q_width);
  account.k_bytes = bytes(s.k_width);
  account.v_bytes = bytes(s.v_width);
  account.qkv_bytes_per_layer =
      checked_sum(what, {account.q_bytes, account.k_bytes, account.v_bytes});
  account.qkv_bytes_all_layers = checked_product(what, {s.L, account.qkv_bytes_per_layer});
  if (config.moe)
    account.moe_up_bytes_per_layer =
        bytes(checked_sum(what, {checked_product(what, {config.moe->top_k, config.moe->expert_ffn}),
                                 config.moe->shared_ffn}));
  if (const auto& mla = config.mla)
    account.mla_latent_bytes_per_layer =
        bytes(mla->q_lora_rank.value_or(0) + mla->kv_lora_rank + mla->qk_rope_head_dim);
}

}  // namespace

Sizes sizes_of(const ModelConfig& config, int64_t micro_batch, int64_t seq) {
  for (const auto& [name, value] : {std::pair{"micro-batch", micro_batch}, std::pair{"seq", seq}})
    if (value < 1) throw InputError(text(name, ": found ", value, ", expected at least 1"));
  const int64_t v_head_dim = config.mla ? config.mla->v_head_dim : config.head_dim;
  return {micro_batch,
          seq,
          checked_product("micro-batch * seq", {micro_batch, seq}),
          config.hidden_size,
          config.vocab_size,
          config.layers,
          checked_product("query width", {config.heads, config.head_dim}),
          checked_product("key width", {config.kv_heads, config.head_dim}),
          checked_product("value width", {config.kv_heads, v_head_dim}),
          checked_product("context width", {config.heads, v_head_dim})};
}

ModelAccount account(const ModelConfig& config, int64_t micro_batch, int64_t seq) {
  const Sizes sizes = sizes_of(config, micro_batch, seq);
  ModelAccount account;
  account.dense_layers = config.dense_layers;
  account.moe_layers = config.moe_layers;
  if (!config.mla) account.head_dim = config.head_dim;
  account.kv_heads = config.kv_heads;
  count_parameters(config, account);
  count_flops(config, sizes, account);
  count_bytes(config, sizes, account);
  account.activations = activation_sizes(config, sizes);
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
