// Attention with heads of queries in groups that share a key and value head; some models add biases
// to the projections (Qwen2) or normalise every head of q and k before rotation (Qwen3).
#include "workloads/layer_parts.h"

namespace spillway {
namespace {

Attributes attention_attributes(const Layer& layer) {
  const ModelConfig& config = layer.build.config;
  Attributes attributes;
  attributes.heads = config.heads;
  attributes.kv_heads = config.kv_heads;
  attributes.head_dim = config.head_dim;
  attributes.precision = layer.build.precision.attention;
  return attributes;
}

Attributes rope_attributes(const Layer& layer, int64_t heads) {
  Attributes attributes;
  attributes.heads = heads;
  attributes.head_dim = layer.build.config.head_dim;
  attributes.rope = layer.build.config.rope;
  return attributes;
}

// x W^T, with a bias where the model has one. The last of the ops carries the names.
TensorId project(Layer& layer, const std::string& name, TensorId x, const Weight& weight,
                 const Weight& bias, const std::vector<std::string>& activations = {}) {
  const Precision precision = layer.build.precision.projection;
  if (!bias.exists()) return layer.body.linear(name, all(x), weight, precision, activations);
  const TensorId product = layer.body.linear(name, all(x), weight, precision);
  const TensorId y =
      layer.body.value(name + ".biased", layer.body.shape_of(product).back(), activations);
  layer.body.op(OpKind::add_bias, name + ".bias", {all(product), layer.body.layer_of(bias.compute)},
                {all(y)});
  return y;
}

TensorId project_backward(Layer& layer, const std::string& name, TensorId dy, TensorId x,
                          const Weight& weight, const Weight& bias) {
  if (bias.exists())
    layer.body.op(OpKind::bias_backward, name + ".bias.backward", {all(dy)},
                  {layer.body.layer_of(bias.gradient)});
  return layer.body.linear_backward(name, dy, x, weight, layer.build.precision.projection);
}

// Norm, if any, and rotation of projected queries or keys; `name` is "query" or "key".
TensorId turn(Layer& layer, const std::string& name, TensorId projected, const Weight& norm,
              int64_t heads) {
  const ModelConfig& config = layer.build.config;
  const TensorId normed =
      norm.exists() ? layer.body.rms_norm(name + "_norm", all(projected), norm, config.rms_norm_eps)
                    : projected;
  const TensorId turned = layer.body.value(name, heads * config.head_dim, {name + "_proj"});
  layer.body.op(OpKind::rope, name + "_rope", {all(normed)}, {all(turned)},
                rope_attributes(layer, heads));
  return turned;
}

TensorId turn_backward(Layer& layer, const std::string& name, TensorId d_turned, TensorId projected,
                       const Weight& norm, int64_t heads) {
  const ModelConfig& config = layer.build.config;
  const TensorId d_normed = layer.body.value("d_" + name + "_before_rope", heads * config.head_dim);
  layer.body.op(OpKind::rope_backward, name + "_rope.backward", {all(d_turned)}, {all(d_normed)},
                rope_attributes(layer, heads));
  if (!norm.exists()) return d_normed;
  return layer.body.rms_norm_backward(name + "_norm", projected, norm, d_normed,
                                      config.rms_norm_eps);
}

}  // namespace

TensorId add_gqa(Layer& layer, TensorId x, AttentionValues& values) {
  const ModelConfig& config = layer.build.config;
  const AttentionWeights& w = layer.stack.weights.attention;
  Body& body = layer.body;
  values.query_projected = project(layer, "q_proj", x, w.query, w.query_bias);
  values.query = turn(layer, "query", values.query_projected, w.query_norm, config.heads);
  values.key_projected = project(layer, "k_proj", x, w.key, w.key_bias);
  values.key = turn(layer, "key", values.key_projected, w.key_norm, config.kv_heads);
  values.value = project(layer, "v_proj", x, w.value, w.value_bias, {"value_proj"});
  values.context =
      body.value("context", config.heads * config.head_dim, {"attention_out", "context"});
  values.log_sum_exp = body.value("log_sum_exp", config.heads, {"context"}, DType::f32);
  body.op(OpKind::attention, "attention", {all(values.query), all(values.key), all(values.value)},
          {all(values.context), all(values.log_sum_exp)}, attention_attributes(layer));
  return body.linear("o_proj", all(values.context), w.output, layer.build.precision.projection,
                     {"out_proj"});
}

TensorId add_gqa_backward(Layer& layer, TensorId dy, TensorId x, const AttentionValues& values) {
  const ModelConfig& config = layer.build.config;
  const AttentionWeights& w = layer.stack.weights.attention;
  Body& body = layer.body;
  const TensorId d_context = body.linear_backward("o_proj", dy, values.context, w.output,
                                                  layer.build.precision.projection);
  const TensorId d_query = body.value("d_query", config.heads * config.head_dim);
  const TensorId d_key = body.value("d_key", config.kv_heads * config.head_dim);
  const TensorId d_value = body.value("d_value", config.kv_heads * config.head_dim);
  body.op(OpKind::attention_backward, "attention.backward",
          {all(values.query), all(values.key), all(values.value), all(values.context),
           all(values.log_sum_exp), all(d_context)},
          {all(d_query), all(d_key), all(d_value)}, attention_attributes(layer));
  const TensorId d_q =
      turn_backward(layer, "query", d_query, values.query_projected, w.query_norm, config.heads);
  const TensorId d_k =
      turn_backward(layer, "key", d_key, values.key_projected, w.key_norm, config.kv_heads);
  const TensorId by_q = project_backward(layer, "q_proj", d_q, x, w.query, w.query_bias);
  const TensorId by_k = project_backward(layer, "k_proj", d_k, x, w.key, w.key_bias);
  const TensorId by_qk = body.add("d_query_key", all(by_q), all(by_k));
  const TensorId by_v = project_backward(layer, "v_proj", d_value, x, w.value, w.value_bias);
  return body.add("d_attention_input", all(by_qk), all(by_v));
}

}  // namespace spillway
