// A training step around its layers: embedding, head with loss, optimizer, and what they share. The
// scanned layers between them are layers.cpp.
#include "workloads/workload.h"

#include <limits>

#include "harness/error.h"
#include "workloads/checked.h"
#include "workloads/layer_parts.h"

namespace spillway {
namespace {

void check_moe_options(const ModelConfig& config, const WorkloadOptions& options) {
  const MoeOptions& moe = options.moe;
  if (config.moe_layers == 0) return refuse_moe_options(moe, config.name);
  const double room_for_all =
      static_cast<double>(config.moe->experts) / static_cast<double>(config.moe->top_k);
  if (!(moe.capacity_factor > 0) || moe.capacity_factor > room_for_all)
    throw InputError(text("--capacity-factor: found ", moe.capacity_factor,
                          ", expected a number above 0 and at most ", room_for_all,
                          ", experts over those a token takes: every token has room then"));
  const char* rows_of_experts = "micro-batch * seq * experts of a token";
  const int64_t rows =
      checked_product(rows_of_experts, {options.micro_batch, options.seq, config.moe->top_k});
  constexpr int64_t most = std::numeric_limits<int32_t>::max();  // they are numbered in 32 bits
  if (rows > most)
    throw InputError(text(rows_of_experts, ": found ", rows, ", expected at most ", most));
}

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
  check_moe_options(config, options);
}

Precisions precisions_of(const WorkloadOptions& options) {
  const Precision all = options.precision, rest = Precision::bf16;
  if (all == Precision::fp32 || all == Precision::bf16) return {all, all, all, all, all};
  return {all, options.projection_precision, rest, rest, rest};
}

// Dense layers first, then MoE layers; `first_k_dense_replace` and models of one kind only.
std::vector<Stack> stacks_of(const ModelConfig& config) {
  if (config.interleaved_layers)
    throw InputError(text(config.file,
                          ": dense and MoE layers alternate, expected all dense "
                          "layers before the first MoE layer"));
  check(config.dense_layers + config.moe_layers == config.layers, config.name, ": ",
        config.dense_layers, " dense and ", config.moe_layers, " MoE layers, of ", config.layers);
  const bool two = config.dense_layers > 0 && config.moe_layers > 0;
  std::vector<Stack> stacks;
  const auto add = [&](const char* name, bool moe, int64_t first, int64_t layers) {
    if (layers == 0) return;
    Stack stack;
    stack.name = two ? name : "layers";
    stack.moe = moe;
    stack.first = first;
    stack.layers = layers;
    stacks.push_back(std::move(stack));
  };
  add("dense_layers", false, 0, config.dense_layers);
  add("moe_layers", true, config.dense_layers, config.moe_layers);
  return stacks;
}

TensorId add_input(StepBuild& build, const char* name, Init init) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = {build.program.batch * build.program.seq};
  tensor.dtype = DType::i32;
  tensor.extent = Extent::persistent;
  tensor.init = init;
  tensor.init_scale = static_cast<double>(build.config.vocab_size);
  return add_tensor(build.program, std::move(tensor));
}

TensorId add_stream(StepBuild& build, const char* name, int64_t slots) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = {build.program.batch * build.program.seq, build.config.hidden_size};
  tensor.dtype = build.dtype;
  tensor.extent = Extent::step;
  tensor.slices = slots;
  tensor.ring = slots > 1;
  return add_tensor(build.program, std::move(tensor));
}

// By name for those who report: "dropped" or "expert_offsets" behind the stack's name.
void add_routing_record(StepBuild& build, Stack& stack) {
  if (!stack.moe) return;
  Tensor tensor;
  tensor.name = stack.name + (build.moe.capacity_path ? ".dropped" : ".expert_offsets");
  tensor.shape = {build.moe.capacity_path ? 1 : build.config.moe->experts + 1};
  tensor.dtype = DType::i32;
  tensor.role = Role::workspace;
  tensor.extent = Extent::persistent;
  tensor.slices = stack.layers;
  tensor.init = Init::zero;
  stack.routed = add_tensor(build.program, std::move(tensor));
}

void add_embedding(StepBuild& build) {
  Body body(build.program, "", Index::all(), build.dtype);
  body.op(OpKind::embed, "embed", {Body::all(build.tokens), Body::all(build.embedding.compute)},
          {{build.hidden, Index::at(0, 0)}});
  build.program.segments.push_back({"embed", Pass::other, 1, -1, std::move(body).take_ops()});
}

TensorId add_logits_cast(StepBuild& build, Body& body, const std::string& name, TensorId from,
                         DType dtype) {
  const TensorId to = body.tensor(name, build.program.at(from).shape, dtype);
  build.program.at(to).role = Role::logits;
  body.op(OpKind::slice_cast, name, {Body::all(from)}, {Body::all(to)});
  return to;
}

// Final norm, logits, loss, and back to the gradient of the last layer's output.
void add_head(StepBuild& build) {
  const Operand last{build.hidden, Index::at(0, build.config.layers)};
  const Precision precision = build.precision.head;
  Body body(build.program, "head.", Index::all(), build.dtype);
  const TensorId x = body.rms_norm("final_norm", last, build.final_norm, build.config.rms_norm_eps);
  TensorId logits = body.linear("lm_head", Body::all(x), build.head, precision);
  build.program.at(logits).role = Role::logits;
  const bool cast = build.logits_dtype != build.dtype;
  if (cast) logits = add_logits_cast(build, body, "fp32_logits", logits, build.logits_dtype);
  // The logits become their own gradient: [T, V] is held once.
  body.op(OpKind::cross_entropy, "cross_entropy", {Body::all(logits), Body::all(build.targets)},
          {Body::all(build.program.loss), Body::all(logits)});
  if (cast) logits = add_logits_cast(build, body, "logits_gradient", logits, build.dtype);
  body.weight_gradient("lm_head", Body::all(logits), Body::all(x), build.head, precision);
  const TensorId d_x = body.input_gradient("lm_head", Body::all(logits), build.head, precision);
  Attributes attributes;
  attributes.epsilon = build.config.rms_norm_eps;
  body.op(OpKind::rms_norm_backward, "final_norm.backward",
          {last, Body::all(build.final_norm.compute), Body::all(d_x)},
          {Body::all(build.d_hidden), Body::all(build.final_norm.gradient)}, attributes);
  build.program.segments.push_back({"head", Pass::other, 1, -1, std::move(body).take_ops()});
}

// A tied table has the head's gradient already and adds to it.
void add_embedding_backward(StepBuild& build) {
  const TensorId gradient = build.embedding.gradient;
  std::vector<Operand> inputs = {Body::all(build.tokens), Body::all(build.d_hidden)};
  if (build.config.tie_word_embeddings) inputs.push_back(Body::all(gradient));
  Body body(build.program, "", Index::all(), build.dtype);
  body.op(OpKind::embed_backward, "embed.backward", inputs, {Body::all(gradient)});
  build.program.segments.push_back(
      {"embed.backward", Pass::other, 1, -1, std::move(body).take_ops()});
}

void add_optimizer(StepBuild& build, const AdamW& adamw) {
  Attributes attributes;
  attributes.learning_rate = adamw.learning_rate;
  attributes.beta1 = adamw.beta1;
  attributes.beta2 = adamw.beta2;
  attributes.adam_epsilon = adamw.epsilon;
  attributes.weight_decay = adamw.weight_decay;
  Body body(build.program, "", Index::all(), build.dtype);
  for (const Weight& weight : build.optimized) {
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

StepBuild start(const ModelConfig& config, const WorkloadOptions& options) {
  const DType dtype = options.precision == Precision::fp32 ? DType::f32 : DType::bf16;
  StepBuild build{config, options.moe, precisions_of(options), dtype,
                  options.fp32_logits ? DType::f32 : dtype};
  build.stacks = stacks_of(config);
  build.program.name = config.name;
  build.program.batch = options.micro_batch;
  build.program.seq = options.seq;
  add_weights(build, options.state_bytes);
  build.tokens = add_input(build, "tokens", Init::tokens);
  build.targets = add_input(build, "targets", Init::targets);
  build.hidden = add_stream(build, "hidden", 2);
  build.program.at(build.hidden).activations = {"decoder_layer_input"};
  build.d_hidden = add_stream(build, "d_hidden", 1);
  for (Stack& stack : build.stacks)
    add_routing_record(build, stack);
  Tensor loss;
  loss.name = "loss";
  loss.shape = {1};
  loss.extent = Extent::persistent;  // read after the step
  loss.init = Init::zero;
  build.program.loss = add_tensor(build.program, std::move(loss));
  return build;
}

}  // namespace

Program build_program(const ModelConfig& config, const WorkloadOptions& options) {
  check_options(config, options);
  StepBuild build = start(config, options);
  add_embedding(build);
  for (Stack& stack : build.stacks)
    add_forward_layers(build, stack);
  add_head(build);
  for (auto stack = build.stacks.rbegin(); stack != build.stacks.rend(); ++stack)
    add_backward_layers(build, *stack);
  add_embedding_backward(build);
  add_optimizer(build, options.adamw);
  return std::move(build.program);
}

}  // namespace spillway
