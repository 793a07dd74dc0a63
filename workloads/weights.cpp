// The weights of a model with what the optimizer keeps beside them. Names and shapes as in Hugging
// Face checkpoints, the numbers of layer and expert left out of the name.
#include "workloads/layer_parts.h"

namespace spillway {
namespace {

DType dtype_of_bytes(int64_t bytes) { return bytes == 2 ? DType::bf16 : DType::f32; }

// Adds the tensors of one weight; those of a stack have a slice for each of its layers.
class WeightBuilder {
 public:
  WeightBuilder(StepBuild& build, const StateBytes& state, std::string prefix, int64_t slices)
      : build_(build), state_(state), prefix_(std::move(prefix)), slices_(slices) {}

  Weight matrix(const std::string& name, int64_t out, int64_t in) {
    return make(name, {out, in}, Init::normal, build_.config.initializer_range);
  }
  Weight expert_matrix(const std::string& name, int64_t experts, int64_t out, int64_t in) {
    return make(name, {experts, out, in}, Init::normal, build_.config.initializer_range);
  }
  Weight norm(const std::string& name, int64_t width) { return make(name, {width}, Init::one, 0); }
  Weight bias(const std::string& name, int64_t width) { return make(name, {width}, Init::zero, 0); }
  TensorId correction_bias(const std::string& name, int64_t experts);

 private:
  Weight make(const std::string& name, const Shape& shape, Init init, double scale);
  Tensor state(const std::string& name, const Shape& shape, int64_t bytes, Role role) const;

  StepBuild& build_;
  StateBytes state_;
  std::string prefix_;
  int64_t slices_;
};

Tensor WeightBuilder::state(const std::string& name, const Shape& shape, int64_t bytes,
                            Role role) const {
  Tensor tensor;
  tensor.name = prefix_ + name;
  tensor.shape = shape;
  tensor.dtype = dtype_of_bytes(bytes);
  tensor.role = role;
  tensor.extent = Extent::persistent;
  tensor.slices = slices_;
  tensor.init = Init::zero;
  return tensor;
}

Weight WeightBuilder::make(const std::string& name, const Shape& shape, Init init, double scale) {
  const DType stored = dtype_of_bytes(state_.weight);
  const bool one_weight = stored == build_.dtype;
  Tensor master =
      state(name + (one_weight ? "" : ".master"), shape, state_.weight, Role::parameter);
  master.init = init;
  master.init_scale = scale;
  Weight weight;
  weight.compute = weight.master = add_tensor(build_.program, master);
  if (!one_weight) {
    Tensor copy = state(name, shape, bytes_of(build_.dtype), Role::parameter);
    copy.init = Init::none;  // the rounding of the master, as after every optimizer step
    copy.init_from = weight.master;
    weight.compute = add_tensor(build_.program, copy);
  }
  weight.m = add_tensor(build_.program, state(name + ".m", shape, state_.m, Role::optimizer));
  weight.v = add_tensor(build_.program, state(name + ".v", shape, state_.v, Role::optimizer));
  weight.gradient =
      add_tensor(build_.program, state(name + ".gradient", shape, state_.gradient, Role::gradient));
  build_.optimized.push_back(weight);
  return weight;
}

// Training moves it by the load of the experts, outside of the gradient; here it stays as it is.
TensorId WeightBuilder::correction_bias(const std::string& name, int64_t experts) {
  return add_tensor(build_.program, state(name, {experts}, 4, Role::parameter));
}

AttentionWeights gqa_weights(const ModelConfig& c, WeightBuilder& add) {
  const int64_t q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
  AttentionWeights w;
  w.query = add.matrix("self_attn.q_proj.weight", q_width, c.hidden_size);
  w.key = add.matrix("self_attn.k_proj.weight", kv_width, c.hidden_size);
  w.value = add.matrix("self_attn.v_proj.weight", kv_width, c.hidden_size);
  if (c.qkv_bias) {
    w.query_bias = add.bias("self_attn.q_proj.bias", q_width);
    w.key_bias = add.bias("self_attn.k_proj.bias", kv_width);
    w.value_bias = add.bias("self_attn.v_proj.bias", kv_width);
  }
  if (c.qk_norm) {
    w.query_norm = add.norm("self_attn.q_norm.weight", c.head_dim);
    w.key_norm = add.norm("self_attn.k_norm.weight", c.head_dim);
  }
  w.output = add.matrix("self_attn.o_proj.weight", c.hidden_size, q_width);
  return w;
}

AttentionWeights mla_weights(const ModelConfig& c, WeightBuilder& add) {
  const MlaConfig& mla = *c.mla;
  const int64_t q_width = c.heads * c.head_dim;
  AttentionWeights w;
  if (mla.q_lora_rank) {
    w.query_a = add.matrix("self_attn.q_a_proj.weight", *mla.q_lora_rank, c.hidden_size);
    w.query_a_norm = add.norm("self_attn.q_a_layernorm.weight", *mla.q_lora_rank);
    w.query_b = add.matrix("self_attn.q_b_proj.weight", q_width, *mla.q_lora_rank);
  } else {
    w.query = add.matrix("self_attn.q_proj.weight", q_width, c.hidden_size);
  }
  w.kv_a = add.matrix("self_attn.kv_a_proj_with_mqa.weight",
                      mla.kv_lora_rank + mla.qk_rope_head_dim, c.hidden_size);
  w.kv_a_norm = add.norm("self_attn.kv_a_layernorm.weight", mla.kv_lora_rank);
  w.kv_b = add.matrix("self_attn.kv_b_proj.weight",
                      c.heads * (mla.qk_nope_head_dim + mla.v_head_dim), mla.kv_lora_rank);
  w.output = add.matrix("self_attn.o_proj.weight", c.hidden_size, c.heads * mla.v_head_dim);
  return w;
}

MlpWeights mlp_weights(const ModelConfig& c, WeightBuilder& add, const std::string& name,
                       int64_t width) {
  MlpWeights w;
  w.gate = add.matrix(name + ".gate_proj.weight", width, c.hidden_size);
  w.up = add.matrix(name + ".up_proj.weight", width, c.hidden_size);
  w.down = add.matrix(name + ".down_proj.weight", c.hidden_size, width);
  return w;
}

void add_moe_weights(const ModelConfig& c, WeightBuilder& add, LayerWeights& w) {
  const MoeConfig& moe = *c.moe;
  w.router = add.matrix("mlp.gate.weight", moe.experts, c.hidden_size);
  if (moe.correction_bias)
    w.correction_bias = add.correction_bias("mlp.gate.e_score_correction_bias", moe.experts);
  const auto experts = [&](const char* name, int64_t out, int64_t in) {
    return add.expert_matrix(name, moe.experts, out, in);
  };
  w.experts.gate = experts("mlp.experts.gate_proj.weight", moe.expert_ffn, c.hidden_size);
  w.experts.up = experts("mlp.experts.up_proj.weight", moe.expert_ffn, c.hidden_size);
  w.experts.down = experts("mlp.experts.down_proj.weight", c.hidden_size, moe.expert_ffn);
  if (moe.shared_ffn > 0) w.mlp = mlp_weights(c, add, "mlp.shared_experts", moe.shared_ffn);
}

void add_stack_weights(StepBuild& build, const StateBytes& state, Stack& stack) {
  const ModelConfig& c = build.config;
  WeightBuilder add(build, state, stack.name + ".", stack.layers);
  LayerWeights& w = stack.weights;
  w.input_norm = add.norm("input_layernorm.weight", c.hidden_size);
  w.attention = c.mla ? mla_weights(c, add) : gqa_weights(c, add);
  w.post_norm = add.norm("post_attention_layernorm.weight", c.hidden_size);
  if (stack.moe)
    add_moe_weights(c, add, w);
  else
    w.mlp = mlp_weights(c, add, "mlp", c.intermediate_size);
}

}  // namespace

void add_weights(StepBuild& build, const StateBytes& state) {
  const ModelConfig& c = build.config;
  WeightBuilder add(build, state, "", 1);
  build.embedding = add.matrix("embed_tokens.weight", c.vocab_size, c.hidden_size);
  for (Stack& stack : build.stacks)
    add_stack_weights(build, state, stack);
  build.final_norm = add.norm("norm.weight", c.hidden_size);
  build.head = c.tie_word_embeddings ? build.embedding
                                     : add.matrix("lm_head.weight", c.vocab_size, c.hidden_size);
}

}  // namespace spillway
