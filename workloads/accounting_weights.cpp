// Parameters of a model: every weight matrix once, and the vectors beside them.
#include <algorithm>

#include "workloads/accounting_parts.h"
#include "workloads/checked.h"

namespace spillway {
namespace {

constexpr const char* counted = "parameters";

int64_t area(int64_t out, int64_t in) { return checked_product(counted, {out, in}); }

class Parts {
 public:
  explicit Parts(const ModelConfig& config) : c_(config) {}
  std::vector<WeightPart> take() && {
    c_.mla ? latent_attention() : attention();
    if (c_.dense_layers > 0) add("dense_ffn", c_.dense_layers, mlp(c_.intermediate_size));
    if (c_.moe && c_.moe_layers > 0) experts();
    add("unembedding", 1, area(c_.vocab_size, c_.hidden_size));
    return std::move(parts_);
  }

 private:
  void add(const char* name, int64_t layers, int64_t elements) {
    parts_.push_back({name, layers, elements, elements});
  }
  void add_attention(const char* name, int64_t out, int64_t in) {
    add(name, c_.layers, area(out, in));
  }
  int64_t mlp(int64_t width) const { return checked_product(counted, {3, c_.hidden_size, width}); }

  void attention();
  void latent_attention();
  void experts();

  const ModelConfig& c_;
  std::vector<WeightPart> parts_;
};

void Parts::attention() {
  const int64_t q_width = area(c_.heads, c_.head_dim), kv_width = area(c_.kv_heads, c_.head_dim);
  add_attention("query", q_width, c_.hidden_size);
  add_attention("key", kv_width, c_.hidden_size);
  add_attention("value", kv_width, c_.hidden_size);
  add_attention("out_proj", c_.hidden_size, q_width);
}

void Parts::latent_attention() {
  const MlaConfig& mla = *c_.mla;
  const int64_t q_width = area(c_.heads, c_.head_dim);
  if (mla.q_lora_rank) {
    add_attention("query_down", *mla.q_lora_rank, c_.hidden_size);
    add_attention("query_up", q_width, *mla.q_lora_rank);
  } else {
    add_attention("query", q_width, c_.hidden_size);
  }
  add_attention("kv_down", mla.kv_lora_rank + mla.qk_rope_head_dim, c_.hidden_size);
  add_attention("kv_up", area(c_.heads, mla.qk_nope_head_dim + mla.v_head_dim), mla.kv_lora_rank);
  add_attention("out_proj", c_.hidden_size, area(c_.heads, mla.v_head_dim));
}

void Parts::experts() {
  const MoeConfig& moe = *c_.moe;
  const int64_t one = mlp(moe.expert_ffn);
  add("router", c_.moe_layers, area(moe.experts, c_.hidden_size));
  if (moe.shared_ffn > 0) add("shared_experts", c_.moe_layers, mlp(moe.shared_ffn));
  parts_.push_back({"routed_experts", c_.moe_layers, checked_product(counted, {moe.top_k, one}),
                    checked_product(counted, {moe.experts, one})});
}

// Two norms, and what the kind of attention brings.
int64_t vectors_of_a_layer(const ModelConfig& c) {
  int64_t attention = 0;
  if (c.mla) attention = c.mla->q_lora_rank.value_or(0) + c.mla->kv_lora_rank;
  if (c.qk_norm) attention += 2 * c.head_dim;
  if (c.qkv_bias)
    attention +=
        checked_sum(counted, {area(c.heads, c.head_dim), area(2 * c.kv_heads, c.head_dim)});
  return checked_sum(counted, {2 * c.hidden_size, attention});
}

int64_t vectors_of_layers(const ModelConfig& c) {
  const int64_t correction = c.moe && c.moe->correction_bias ? c.moe->experts : 0;
  return checked_sum(counted, {checked_product(counted, {c.layers, vectors_of_a_layer(c)}),
                               checked_product(counted, {c.moe_layers, correction})});
}

int64_t sum_of(const std::vector<WeightPart>& parts, int64_t WeightPart::*elements) {
  int64_t sum = 0;
  for (const WeightPart& part : parts)
    sum = checked_sum(counted, {sum, checked_product(counted, {part.layers, part.*elements})});
  return sum;
}

// One more layer of the last kind, two norms and a projection [D, 2 D] before it and a norm after
// it (DeepSeek-V3, arXiv 2412.19437, 2.2). Embedding and head are the model's.
int64_t mtp_parameters(const ModelConfig& config) {
  if (config.mtp_layers == 0) return 0;
  ModelConfig one = config;
  one.layers = 1;
  one.moe_layers = config.moe_layers > 0 ? 1 : 0;
  one.dense_layers = 1 - one.moe_layers;
  const int64_t D = config.hidden_size;
  const int64_t layer = sum_of(weight_parts(one), &WeightPart::stored) - area(config.vocab_size, D);
  return checked_product(
      counted,
      {config.mtp_layers, checked_sum(counted, {layer, vectors_of_layers(one),
                                                checked_product(counted, {2, D, D}), 3 * D})});
}

}  // namespace

std::vector<WeightPart> weight_parts(const ModelConfig& config) { return Parts(config).take(); }

Parameters parameters_of(const ModelConfig& config) {
  const std::vector<WeightPart> parts = weight_parts(config);
  const int64_t table = area(config.vocab_size, config.hidden_size);
  const int64_t embedding = config.tie_word_embeddings ? 0 : table;  // the head is a part
  const int64_t beside =
      checked_sum(counted, {vectors_of_layers(config), config.hidden_size, embedding});
  Parameters parameters;
  parameters.total = checked_sum(counted, {sum_of(parts, &WeightPart::stored), beside});
  parameters.active = checked_sum(counted, {sum_of(parts, &WeightPart::used), beside});
  parameters.mtp_unique = mtp_parameters(config);
  parameters.mtp_copies =
      checked_product(counted, {config.mtp_layers, checked_sum(counted, {table, embedding})});
  return parameters;
}

}  // namespace spillway
