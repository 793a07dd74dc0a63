// Bytes of the named activations (mechanisms.md 1.3, 1.5). Each tensor is listed once, under its
// own name: in a layer with experts mlpwi_0, mlpwi_1 and mlpwo are the shared expert's.
#include "workloads/accounting_parts.h"
#include "workloads/checked.h"

namespace spillway {
namespace {

constexpr const char* sized = "activation bytes";
constexpr int64_t f32_bytes = 4;

class Stack {
 public:
  Stack(const ModelConfig& config, const Sizes& sizes, const char* segment, int64_t layers)
      : c_(config), s_(sizes), segment_(segment), layers_(layers) {}

  void attention();
  void mlp(int64_t width);
  void routed_experts();
  void append_to(std::vector<ActivationSize>& sizes) const {
    sizes.insert(sizes.end(), sizes_.begin(), sizes_.end());
  }

 private:
  // `rows` of `width` bf16 values.
  int64_t bytes(int64_t rows, int64_t width) const {
    return checked_product(sized, {bf16_bytes, rows, width});
  }
  void add(const char* name, int64_t width) { add_bytes(name, bytes(s_.rows, width)); }
  void add_bytes(const char* name, int64_t size) {
    sizes_.push_back({segment_, layers_, name, size});
  }
  void latents();

  const ModelConfig& c_;
  const Sizes& s_;
  const char* segment_;
  int64_t layers_;
  std::vector<ActivationSize> sizes_;
};

// The down-projections, the key and value one with the shared rotary key, and both normalised.
void Stack::latents() {
  const MlaConfig& mla = *c_.mla;
  if (mla.q_lora_rank) {
    add("query_wa_proj", *mla.q_lora_rank);
    add("mla_q", *mla.q_lora_rank);
  }
  add("kv_wa_proj", mla.kv_lora_rank + mla.qk_rope_head_dim);
  add("mla_kv", mla.kv_lora_rank);
}

void Stack::attention() {
  add("decoder_layer_input", s_.D);
  if (c_.mla) latents();
  add("query_proj", s_.q_width);
  add("key_proj", s_.k_width);
  add("value_proj", s_.v_width);
  const int64_t log_sum_exp = checked_product(sized, {f32_bytes, s_.rows, c_.heads});
  add_bytes("context", checked_sum(sized, {bytes(s_.rows, s_.context_width), log_sum_exp}));
  add("attention_out", s_.context_width);
  add("out_proj", s_.D);
}

void Stack::mlp(int64_t width) {
  add("mlpwi_0", width);
  add("mlpwi_1", width);
  add("mlpwo", s_.D);
}

// top_k rows for each token, whatever the routing.
void Stack::routed_experts() {
  const int64_t rows = checked_product(sized, {c_.moe->top_k, s_.rows});
  add_bytes("moe_mlpwi_0", bytes(rows, c_.moe->expert_ffn));
  add_bytes("moe_mlpwi_1", bytes(rows, c_.moe->expert_ffn));
  add_bytes("moe_mlpwo", bytes(rows, s_.D));
}

}  // namespace

std::vector<ActivationSize> activation_sizes(const ModelConfig& config, const Sizes& sizes) {
  std::vector<ActivationSize> all;
  if (config.dense_layers > 0) {
    Stack dense(config, sizes, config.moe ? "dense_layers" : "layers", config.dense_layers);
    dense.attention();
    dense.mlp(config.intermediate_size);
    dense.append_to(all);
  }
  if (config.moe && config.moe_layers > 0) {
    Stack moe(config, sizes, "moe_layers", config.moe_layers);
    moe.attention();
    moe.routed_experts();
    if (config.moe->shared_ffn > 0) moe.mlp(config.moe->shared_ffn);
    moe.append_to(all);
  }
  return all;
}

}  // namespace spillway
