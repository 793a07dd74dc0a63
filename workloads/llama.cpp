// A dense Llama's training step: weights and their state, embedding, head with loss, optimizer. The
// scanned layers between them are llama_layers.cpp.
#include "workloads/llama.h"

#include "harness/error.h"
#include "workloads/checked.h"
#include "workloads/llama_parts.h"

namespace spillway {
namespace {

DType dtype_of_bytes(int64_t bytes) { return bytes == 2 ? DType::bf16 : DType::f32; }

void check_options(const ModelConfig& config, const WorkloadOptions& options) {
  const auto positive = [](const char* name, int64_t value) {
    if (value < 1) throw InputError(text(name, ": found ", value, ", expected at least 1"));
  };
  positive("micro-batch", options.micro_batch);
  positive("seq", options.seq);
  // Widths that are products; add_tensor() checks every tensor made of them.
  checked_product("micro-batch * seq", {options.micro_batch, options.seq});
  checked_product("num_attention_heads * head_dim", {config.heads, config.head_dim});
  const StateBytes& state = options.state_bytes;
  for (const int64_t bytes : {state.weight, state.m, state.v, state.gradient})
    if (bytes != 2 && bytes != 4)
      throw InputError(text("state-bytes: found ", bytes, ", expected 2 or 4 for each"));
  if (options.projection_precision == Precision::fp32 && options.precision != Precision::fp32)
    throw InputError("projection-precision: found fp32, expected bf16, fp8 or nvfp4");
}

LlamaPrecisions precisions_of(const WorkloadOptions& options) {
  const Precision all = options.precision;
  if (all == Precision::fp32 || all == Precision::bf16) return {all, all, all, all};
  return {all, options.projection_precision, Precision::bf16, Precision::bf16};
}

// Adds the tensors of one weight; `slices` > 1 stacks layers.
class WeightBuilder {
 public:
  WeightBuilder(LlamaBuild& build, const StateBytes& state) : build_(build), state_(state) {}

  Weight matrix(const std::string& name, int64_t out, int64_t in, int64_t slices) {
    return make(name, {out, in}, slices, Init::normal, build_.config.initializer_range);
  }
  Weight norm(const std::string& name, int64_t slices) {
    return make(name, {build_.config.hidden_size}, slices, Init::one, 0);
  }

 private:
  Weight make(const std::string& name, const Shape& shape, int64_t slices, Init init, double scale);

  LlamaBuild& build_;
  StateBytes state_;
};

Weight WeightBuilder::make(const std::string& name, const Shape& shape, int64_t slices, Init init,
                           double scale) {
  const DType stored = dtype_of_bytes(state_.weight);
  const bool one_weight = stored == build_.dtype;
  const auto state = [&](const std::string& suffix, int64_t bytes, Role role) {
    Tensor tensor;
    tensor.name = name + suffix;
    tensor.shape = shape;
    tensor.dtype = dtype_of_bytes(bytes);
    tensor.role = role;
    tensor.extent = Extent::persistent;
    tensor.slices = slices;
    tensor.init = Init::zero;
    return tensor;
  };
  Tensor master = state(one_weight ? "" : ".master", state_.weight, Role::parameter);
  master.init = init;
  master.init_scale = scale;
  Weight weight;
  weight.compute = weight.master = add_tensor(build_.program, master);
  if (!one_weight) {
    Tensor copy = state("", bytes_of(build_.dtype), Role::parameter);
    copy.init = Init::none;  // the rounding of the master, as after every optimizer step
    copy.init_from = weight.master;
    weight.compute = add_tensor(build_.program, copy);
  }
  weight.m = add_tensor(build_.program, state(".m", state_.m, Role::optimizer));
  weight.v = add_tensor(build_.program, state(".v", state_.v, Role::optimizer));
  weight.gradient = add_tensor(build_.program, state(".gradient", state_.gradient, Role::gradient));
  return weight;
}

// Names and shapes as in Hugging Face checkpoints, the layer's number left out of the name.
LlamaWeights add_weights(LlamaBuild& build, const StateBytes& state) {
  const ModelConfig& c = build.config;
  const int64_t q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
  WeightBuilder add(build, state);
  LlamaWeights w;
  w.embedding = add.matrix("embed_tokens.weight", c.vocab_size, c.hidden_size, 1);
  w.input_norm = add.norm("layers.input_layernorm.weight", c.layers);
  w.query = add.matrix("layers.self_attn.q_proj.weight", q_width, c.hidden_size, c.layers);
  w.key = add.matrix("layers.self_attn.k_proj.weight", kv_width, c.hidden_size, c.layers);
  w.value = add.matrix("layers.self_attn.v_proj.weight", kv_width, c.hidden_size, c.layers);
  w.output = add.matrix("layers.self_attn.o_proj.weight", c.hidden_size, q_width, c.layers);
  w.post_norm = add.norm("layers.post_attention_layernorm.weight", c.layers);
  w.gate = add.matrix("layers.mlp.gate_proj.weight", c.intermediate_size, c.hidden_size, c.layers);
  w.up = add.matrix("layers.mlp.up_proj.weight", c.intermediate_size, c.hidden_size, c.layers);
  w.down = add.matrix("layers.mlp.down_proj.weight", c.hidden_size, c.intermediate_size, c.layers);
  w.final_norm = add.norm("norm.weight", 1);
  w.head = c.tie_word_embeddings ? w.embedding
                                 : add.matrix("lm_head.weight", c.vocab_size, c.hidden_size, 1);
  return w;
}

TensorId add_input(LlamaBuild& build, const char* name, Init init) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = {build.program.batch * build.program.seq};
  tensor.dtype = DType::i32;
  tensor.extent = Extent::persistent;
  tensor.init = init;
  tensor.init_scale = static_cast<double>(build.config.vocab_size);
  return add_tensor(build.program, std::move(tensor));
}

TensorId add_stream(LlamaBuild& build, const char* name, int64_t slots) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = {build.program.batch * build.program.seq, build.config.hidden_size};
  tensor.dtype = build.dtype;
  tensor.extent = Extent::step;
  tensor.slices = slots;
  tensor.ring = slots > 1;
  return add_tensor(build.program, std::move(tensor));
}

void add_embedding(LlamaBuild& build) {
  Body body(build.program, "", Index::all(), build.dtype);
  body.op(OpKind::embed, "embed",
          {Body::all(build.tokens), Body::all(build.weights.embedding.compute)},
          {{build.hidden, Index::at(0, 0)}});
  build.program.segments.push_back({"embed", Pass::other, 1, -1, std::move(body).take_ops()});
}

// Final norm, logits, loss, and back to the gradient of the last layer's output.
void add_head(LlamaBuild& build) {
  const LlamaWeights& w = build.weights;
  const Operand last{build.hidden, Index::at(0, build.config.layers)};
  const Precision precision = build.precision.head;
  Body body(build.program, "head.", Index::all(), build.dtype);
  const TensorId x = body.rms_norm("final_norm", last, w.final_norm, build.config.rms_norm_eps);
  const TensorId logits = body.linear("lm_head", Body::all(x), w.head, precision);
  build.program.at(logits).role = Role::logits;
  // The logits become their own gradient: [T, V] is held once.
  body.op(OpKind::cross_entropy, "cross_entropy", {Body::all(logits), Body::all(build.targets)},
          {Body::all(build.program.loss), Body::all(logits)});
  body.weight_gradient("lm_head", Body::all(logits), Body::all(x), w.head, precision);
  const TensorId d_x = body.input_gradient("lm_head", Body::all(logits), w.head, precision);
  Attributes attributes;
  attributes.epsilon = build.config.rms_norm_eps;
  body.op(OpKind::rms_norm_backward, "final_norm.backward",
          {last, Body::all(w.final_norm.compute), Body::all(d_x)},
          {Body::all(build.d_hidden), Body::all(w.final_norm.gradient)}, attributes);
  build.program.segments.push_back({"head", Pass::other, 1, -1, std::move(body).take_ops()});
}

// A tied table has the head's gradient already and adds to it.
void add_embedding_backward(LlamaBuild& build) {
  const TensorId gradient = build.weights.embedding.gradient;
  std::vector<Operand> inputs = {Body::all(build.tokens), Body::all(build.d_hidden)};
  if (build.config.tie_word_embeddings) inputs.push_back(Body::all(gradient));
  Body body(build.program, "", Index::all(), build.dtype);
  body.op(OpKind::embed_backward, "embed.backward", inputs, {Body::all(gradient)});
  build.program.segments.push_back(
      {"embed.backward", Pass::other, 1, -1, std::move(body).take_ops()});
}

void add_optimizer(LlamaBuild& build, const AdamW& adamw) {
  const LlamaWeights& w = build.weights;
  std::vector<Weight> weights = {w.embedding, w.input_norm, w.query, w.key,  w.value,     w.output,
                                 w.post_norm, w.gate,       w.up,    w.down, w.final_norm};
  if (!build.config.tie_word_embeddings) weights.push_back(w.head);
  Attributes attributes;
  attributes.learning_rate = adamw.learning_rate;
  attributes.beta1 = adamw.beta1;
  attributes.beta2 = adamw.beta2;
  attributes.adam_epsilon = adamw.epsilon;
  attributes.weight_decay = adamw.weight_decay;
  Body body(build.program, "", Index::all(), build.dtype);
  for (const Weight& weight : weights) {
    std::vector<Operand> state = {Body::all(weight.master), Body::all(weight.m),
                                  Body::all(weight.v)};
    std::vector<Operand> outputs = state;
    state.push_back(Body::all(weight.gradient));
    if (weight.compute != weight.master) outputs.push_back(Body::all(weight.compute));
    body.op(OpKind::adamw, "adamw." + build.program.at(weight.compute).name, state, outputs,
            attributes);
  }
  build.program.segments.push_back({"optimizer", Pass::other, 1, -1, std::move(body).take_ops()});
}

LlamaBuild start(const ModelConfig& config, const WorkloadOptions& options) {
  const DType dtype = options.precision == Precision::fp32 ? DType::f32 : DType::bf16;
  LlamaBuild build{config,   precisions_of(options), dtype, {}, {}, no_tensor, no_tensor, no_tensor,
                   no_tensor};
  build.program.name = config.name;
  build.program.batch = options.micro_batch;
  build.program.seq = options.seq;
  build.weights = add_weights(build, options.state_bytes);
  build.tokens = add_input(build, "tokens", Init::tokens);
  build.targets = add_input(build, "targets", Init::targets);
  build.hidden = add_stream(build, "hidden", 2);
  build.program.at(build.hidden).activations = {"decoder_layer_input"};
  build.d_hidden = add_stream(build, "d_hidden", 1);
  Tensor loss;
  loss.name = "loss";
  loss.shape = {1};
  loss.extent = Extent::persistent;  // read after the step
  loss.init = Init::zero;
  build.program.loss = add_tensor(build.program, std::move(loss));
  return build;
}

}  // namespace

Program build_llama(const ModelConfig& config, const WorkloadOptions& options) {
  check_options(config, options);
  LlamaBuild build = start(config, options);
  add_embedding(build);
  const int forward_segment = static_cast<int>(build.program.segments.size());
  const LayerValues saved = add_forward_layers(build);
  add_head(build);
  add_backward_layers(build, saved, forward_segment);
  add_embedding_backward(build);
  add_optimizer(build, options.adamw);
  return std::move(build.program);
}

}  // namespace spillway
