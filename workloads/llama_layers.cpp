// The decoder stack, forward and backward: one body each, run once a layer. Everything the backward
// reads is read straight from the forward's values of the same layer; whether they were kept, moved
// or computed again is a policy's decision, not this file's.
#include "workloads/llama_parts.h"

namespace spillway {
namespace {

class LayerBuilder {
 public:
  LayerBuilder(LlamaBuild& build, const std::string& prefix, Index layer)
      : config_(build.config),
        weights_(build.weights),
        precision_(build.precision),
        build_(build),
        body_(build.program, prefix, layer, build.dtype) {}

  LayerValues forward();
  void backward(const LayerValues& saved);
  std::vector<Op> take_ops() && { return std::move(body_).take_ops(); }

 private:
  void attend(LayerValues& values, Operand input);
  void feed_forward(LayerValues& values, Operand output);
  void feed_forward_backward(const LayerValues& saved);
  void attend_backward(const LayerValues& saved);
  TensorId attention_gradient_of_input(const LayerValues& saved, TensorId d_context);

  Attributes attention_attributes() const;
  Attributes rope_attributes(int64_t heads) const;
  // Matrix gradients by x and W of y = x W^T.
  TensorId linear_backward(const std::string& name, TensorId dy, TensorId x, const Weight& weight,
                           Precision precision);
  static Operand all(TensorId tensor) { return Body::all(tensor); }

  const ModelConfig& config_;
  const LlamaWeights& weights_;
  const LlamaPrecisions& precision_;
  LlamaBuild& build_;
  Body body_;
};

Attributes LayerBuilder::attention_attributes() const {
  Attributes attributes;
  attributes.heads = config_.heads;
  attributes.kv_heads = config_.kv_heads;
  attributes.head_dim = config_.head_dim;
  attributes.precision = precision_.attention;
  return attributes;
}

Attributes LayerBuilder::rope_attributes(int64_t heads) const {
  Attributes attributes;
  attributes.heads = heads;
  attributes.head_dim = config_.head_dim;
  attributes.rope = config_.rope;
  return attributes;
}

LayerValues LayerBuilder::forward() {
  LayerValues values;
  const Operand input{build_.hidden, Index::at(1, 0)};
  attend(values, input);
  feed_forward(values, {build_.hidden, Index::at(1, 1)});
  return values;
}

void LayerBuilder::attend(LayerValues& values, Operand input) {
  const int64_t q_width = config_.heads * config_.head_dim;
  const int64_t kv_width = config_.kv_heads * config_.head_dim;
  values.attention_input =
      body_.rms_norm("input_norm", input, weights_.input_norm, config_.rms_norm_eps);
  const Operand x = all(values.attention_input);
  const TensorId query = body_.linear("q_proj", x, weights_.query, precision_.projection);
  values.query = body_.value("query", q_width, {"query_proj"});
  body_.op(OpKind::rope, "query_rope", {all(query)}, {all(values.query)},
           rope_attributes(config_.heads));
  const TensorId key = body_.linear("k_proj", x, weights_.key, precision_.projection);
  values.key = body_.value("key", kv_width, {"key_proj"});
  body_.op(OpKind::rope, "key_rope", {all(key)}, {all(values.key)},
           rope_attributes(config_.kv_heads));
  values.value = body_.linear("v_proj", x, weights_.value, precision_.projection, {"value_proj"});
  values.context = body_.value("context", q_width, {"attention_out", "context"});
  values.log_sum_exp = body_.value("log_sum_exp", config_.heads, {"context"}, DType::f32);
  body_.op(OpKind::attention, "attention", {all(values.query), all(values.key), all(values.value)},
           {all(values.context), all(values.log_sum_exp)}, attention_attributes());
  const TensorId output = body_.linear("o_proj", all(values.context), weights_.output,
                                       precision_.projection, {"out_proj"});
  values.middle = body_.add("middle", input, all(output));
}

void LayerBuilder::feed_forward(LayerValues& values, Operand output) {
  values.mlp_input =
      body_.rms_norm("post_norm", all(values.middle), weights_.post_norm, config_.rms_norm_eps);
  const Operand x = all(values.mlp_input);
  values.gate = body_.linear("gate_proj", x, weights_.gate, precision_.mlp, {"mlpwi_0"});
  values.up = body_.linear("up_proj", x, weights_.up, precision_.mlp, {"mlpwi_1"});
  values.product = body_.value("product", config_.intermediate_size);
  body_.op(OpKind::swiglu, "swiglu", {all(values.gate), all(values.up)}, {all(values.product)});
  const TensorId down =
      body_.linear("down_proj", all(values.product), weights_.down, precision_.mlp, {"mlpwo"});
  body_.op(OpKind::add, "output", {all(values.middle), all(down)}, {output});
}

void LayerBuilder::backward(const LayerValues& saved) {
  feed_forward_backward(saved);
  attend_backward(saved);
}

// The weight's gradient comes first: after it x and, with the input's gradient, dy are free.
TensorId LayerBuilder::linear_backward(const std::string& name, TensorId dy, TensorId x,
                                       const Weight& weight, Precision precision) {
  body_.weight_gradient(name, all(dy), all(x), weight, precision);
  return body_.input_gradient(name, all(dy), weight, precision);
}

// Both parts of a layer add to the stream they read, so the stream's gradient passes unchanged and
// gains the part's own: d_hidden is updated in place.
void LayerBuilder::feed_forward_backward(const LayerValues& saved) {
  const TensorId d_product =
      linear_backward("down_proj", build_.d_hidden, saved.product, weights_.down, precision_.mlp);
  const TensorId d_gate = body_.value("d_gate", config_.intermediate_size);
  const TensorId d_up = body_.value("d_up", config_.intermediate_size);
  body_.op(OpKind::swiglu_backward, "swiglu.backward",
           {all(saved.gate), all(saved.up), all(d_product)}, {all(d_gate), all(d_up)});
  const TensorId by_gate =
      linear_backward("gate_proj", d_gate, saved.mlp_input, weights_.gate, precision_.mlp);
  const TensorId by_up =
      linear_backward("up_proj", d_up, saved.mlp_input, weights_.up, precision_.mlp);
  const TensorId d_input = body_.add("d_mlp_input", all(by_gate), all(by_up));
  body_.rms_norm_backward("post_norm", all(saved.middle), weights_.post_norm, d_input,
                          build_.d_hidden, config_.rms_norm_eps);
}

void LayerBuilder::attend_backward(const LayerValues& saved) {
  const TensorId d_context = linear_backward("o_proj", build_.d_hidden, saved.context,
                                             weights_.output, precision_.projection);
  const TensorId d_input = attention_gradient_of_input(saved, d_context);
  const Operand input{build_.hidden, Index::at(-1, config_.layers - 1)};
  body_.rms_norm_backward("input_norm", input, weights_.input_norm, d_input, build_.d_hidden,
                          config_.rms_norm_eps);
}

TensorId LayerBuilder::attention_gradient_of_input(const LayerValues& saved, TensorId d_context) {
  const int64_t q_width = config_.heads * config_.head_dim;
  const int64_t kv_width = config_.kv_heads * config_.head_dim;
  const TensorId d_query = body_.value("d_query", q_width);
  const TensorId d_key = body_.value("d_key", kv_width);
  const TensorId d_value = body_.value("d_value", kv_width);
  body_.op(OpKind::attention_backward, "attention.backward",
           {all(saved.query), all(saved.key), all(saved.value), all(saved.context),
            all(saved.log_sum_exp), all(d_context)},
           {all(d_query), all(d_key), all(d_value)}, attention_attributes());
  const TensorId d_q = body_.value("d_query_before_rope", q_width);
  body_.op(OpKind::rope_backward, "query_rope.backward", {all(d_query)}, {all(d_q)},
           rope_attributes(config_.heads));
  const TensorId d_k = body_.value("d_key_before_rope", kv_width);
  body_.op(OpKind::rope_backward, "key_rope.backward", {all(d_key)}, {all(d_k)},
           rope_attributes(config_.kv_heads));
  const TensorId x = saved.attention_input;
  const TensorId by_q = linear_backward("q_proj", d_q, x, weights_.query, precision_.projection);
  const TensorId by_k = linear_backward("k_proj", d_k, x, weights_.key, precision_.projection);
  const TensorId by_qk = body_.add("d_query_key", all(by_q), all(by_k));
  const TensorId by_v =
      linear_backward("v_proj", d_value, x, weights_.value, precision_.projection);
  return body_.add("d_attention_input", all(by_qk), all(by_v));
}

}  // namespace

LayerValues add_forward_layers(LlamaBuild& build) {
  LayerBuilder layer(build, "layers.", Index::at(1, 0));
  const LayerValues values = layer.forward();
  build.program.segments.push_back(
      {"layers.forward", Pass::forward, build.config.layers, -1, std::move(layer).take_ops()});
  return values;
}

void add_backward_layers(LlamaBuild& build, const LayerValues& saved, int forward_segment) {
  const int64_t layers = build.config.layers;
  LayerBuilder layer(build, "layers.", Index::at(-1, layers - 1));
  layer.backward(saved);
  build.program.segments.push_back(
      {"layers.backward", Pass::backward, layers, forward_segment, std::move(layer).take_ops()});
}

}  // namespace spillway
