// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, 2.1): keys and values of all heads
// come from one narrow latent a token, queries from another one or straight from the stream. A head
// of q and k ends in columns that turn; those of k are shared by all heads.
#include <cmath>

#include "workloads/layer_parts.h"

namespace spillway {
namespace {

// Softmax scale. YaRN with mscale_all_dim sharpens q and k alike, hence the square (transformers'
// DeepseekV3Attention and yarn_get_mscale).
double attention_scale(const ModelConfig& config) {
  double scale = 1 / std::sqrt(static_cast<double>(config.head_dim));
  const Rope& rope = config.rope;
  if (rope.kind == RopeKind::yarn && rope.mscale_all_dim != 0 && rope.factor > 1)
    scale *= std::pow(0.1 * rope.mscale_all_dim * std::log(rope.factor) + 1, 2);
  return scale;
}

Attributes latent_attention_attributes(const Layer& layer) {
  const ModelConfig& config = layer.build.config;
  Attributes attributes;
  attributes.heads = attributes.kv_heads = config.heads;
  attributes.head_dim = config.head_dim;
  attributes.value_dim = config.mla->v_head_dim;
  attributes.scale = attention_scale(config);
  attributes.precision = layer.build.precision.attention;
  return attributes;
}

Attributes latent_rope_attributes(const Layer& layer) {
  const ModelConfig& config = layer.build.config;
  Attributes attributes;
  attributes.heads = config.heads;
  attributes.head_dim = config.head_dim;
  attributes.value_dim = config.mla->v_head_dim;
  attributes.rope = config.rope;
  attributes.rope_dim = config.mla->qk_rope_head_dim;
  attributes.interleaved = config.mla->rope_interleave;
  return attributes;
}

void add_query(Layer& layer, TensorId x, AttentionValues& values) {
  const AttentionWeights& w = layer.stack.weights.attention;
  const Precision precision = layer.build.precision.projection;
  Body& body = layer.body;
  TensorId query = no_tensor;
  if (w.query_a.exists()) {
    values.query_latent = body.linear("q_a_proj", all(x), w.query_a, precision, {"query_wa_proj"});
    values.query_normed = body.rms_norm("q_a_norm", all(values.query_latent), w.query_a_norm,
                                        layer.build.config.mla->latent_norm_eps, {"mla_q"});
    query = body.linear("q_b_proj", all(values.query_normed), w.query_b, precision);
  } else {
    query = body.linear("q_proj", all(x), w.query, precision);
  }
  values.query = body.value("query", body.shape_of(query).back(), {"query_proj"});
  body.op(OpKind::rope, "query_rope", {all(query)}, {all(values.query)},
          latent_rope_attributes(layer));
}

void add_key_value(Layer& layer, TensorId x, AttentionValues& values) {
  const ModelConfig& config = layer.build.config;
  const AttentionWeights& w = layer.stack.weights.attention;
  const Precision precision = layer.build.precision.projection;
  Body& body = layer.body;
  values.kv_latent = body.linear("kv_a_proj", all(x), w.kv_a, precision, {"kv_wa_proj"});
  values.kv_columns = body.value("kv_columns", config.mla->kv_lora_rank);
  body.op(OpKind::columns, "kv_columns", {all(values.kv_latent)}, {all(values.kv_columns)});
  values.kv_normed = body.rms_norm("kv_a_norm", all(values.kv_columns), w.kv_a_norm,
                                   config.mla->latent_norm_eps, {"mla_kv"});
  const TensorId kv = body.linear("kv_b_proj", all(values.kv_normed), w.kv_b, precision);
  values.key = body.value("key", config.heads * config.head_dim, {"key_proj"});
  values.value = body.value("value", config.heads * config.mla->v_head_dim, {"value_proj"});
  body.op(OpKind::mla_key_value, "key_value", {all(kv), all(values.kv_latent)},
          {all(values.key), all(values.value)}, latent_rope_attributes(layer));
}

// Gradient by x through the queries.
TensorId add_query_backward(Layer& layer, TensorId d_query, TensorId x,
                            const AttentionValues& values) {
  const AttentionWeights& w = layer.stack.weights.attention;
  const Precision precision = layer.build.precision.projection;
  Body& body = layer.body;
  const TensorId d_q = body.value("d_query_before_rope", body.shape_of(d_query).back());
  body.op(OpKind::rope_backward, "query_rope.backward", {all(d_query)}, {all(d_q)},
          latent_rope_attributes(layer));
  if (!w.query_a.exists()) return body.linear_backward("q_proj", d_q, x, w.query, precision);
  const TensorId d_normed =
      body.linear_backward("q_b_proj", d_q, values.query_normed, w.query_b, precision);
  const TensorId d_latent =
      body.rms_norm_backward("q_a_norm", values.query_latent, w.query_a_norm, d_normed,
                             layer.build.config.mla->latent_norm_eps);
  return body.linear_backward("q_a_proj", d_latent, x, w.query_a, precision);
}

// Gradient by x through keys and values: the latent's and the shared rope key's, side by side.
TensorId add_key_value_backward(Layer& layer, TensorId d_key, TensorId d_value, TensorId x,
                                const AttentionValues& values) {
  const MlaConfig& mla = *layer.build.config.mla;
  const AttentionWeights& w = layer.stack.weights.attention;
  const Precision precision = layer.build.precision.projection;
  Body& body = layer.body;
  const TensorId d_kv =
      body.value("d_kv", layer.build.config.heads * (mla.qk_nope_head_dim + mla.v_head_dim));
  const TensorId d_rope_key = body.value("d_rope_key", mla.qk_rope_head_dim);
  body.op(OpKind::mla_key_value_backward, "key_value.backward", {all(d_key), all(d_value)},
          {all(d_kv), all(d_rope_key)}, latent_rope_attributes(layer));
  const TensorId d_normed =
      body.linear_backward("kv_b_proj", d_kv, values.kv_normed, w.kv_b, precision);
  const TensorId d_columns = body.rms_norm_backward("kv_a_norm", values.kv_columns, w.kv_a_norm,
                                                    d_normed, mla.latent_norm_eps);
  const TensorId d_latent = body.value("d_kv_latent", mla.kv_lora_rank + mla.qk_rope_head_dim);
  body.op(OpKind::concat_columns, "d_kv_latent", {all(d_columns), all(d_rope_key)},
          {all(d_latent)});
  return body.linear_backward("kv_a_proj", d_latent, x, w.kv_a, precision);
}

}  // namespace

TensorId add_mla(Layer& layer, TensorId x, AttentionValues& values) {
  Body& body = layer.body;
  add_query(layer, x, values);
  add_key_value(layer, x, values);
  const int64_t heads = layer.build.config.heads;
  values.context = body.value("context", heads * layer.build.config.mla->v_head_dim,
                              {"attention_out", "context"});
  values.log_sum_exp = body.value("log_sum_exp", heads, {"context"}, DType::f32);
  body.op(OpKind::attention, "attention", {all(values.query), all(values.key), all(values.value)},
          {all(values.context), all(values.log_sum_exp)}, latent_attention_attributes(layer));
  return body.linear("o_proj", all(values.context), layer.stack.weights.attention.output,
                     layer.build.precision.projection, {"out_proj"});
}

TensorId add_mla_backward(Layer& layer, TensorId dy, TensorId x, const AttentionValues& values) {
  Body& body = layer.body;
  const TensorId d_context =
      body.linear_backward("o_proj", dy, values.context, layer.stack.weights.attention.output,
                           layer.build.precision.projection);
  const TensorId d_query = body.value("d_query", body.shape_of(values.query).back());
  const TensorId d_key = body.value("d_key", body.shape_of(values.key).back());
  const TensorId d_value = body.value("d_value", body.shape_of(values.value).back());
  body.op(OpKind::attention_backward, "attention.backward",
          {all(values.query), all(values.key), all(values.value), all(values.context),
           all(values.log_sum_exp), all(d_context)},
          {all(d_query), all(d_key), all(d_value)}, latent_attention_attributes(layer));
  const TensorId by_q = add_query_backward(layer, d_query, x, values);
  const TensorId by_kv = add_key_value_backward(layer, d_key, d_value, x, values);
  return body.add("d_attention_input", all(by_q), all(by_kv));
}

}  // namespace spillway
