// The gated MLP (SwiGLU): a dense layer's, and the shared experts' of an MoE layer.
#include "workloads/layer_parts.h"

namespace spillway {
TensorId add_mlp(Layer& layer, const std::string& prefix, TensorId x, MlpValues& values) {
  const MlpWeights& w = layer.stack.weights.mlp;
  const Precision precision = layer.build.precision.mlp;
  Body& body = layer.body;
  values.gate = body.linear(prefix + "gate_proj", all(x), w.gate, precision, {"mlpwi_0"});
  values.up = body.linear(prefix + "up_proj", all(x), w.up, precision, {"mlpwi_1"});
  values.product = body.value(prefix + "product", body.shape_of(values.gate).back());
  body.op(OpKind::swiglu, prefix + "swiglu", {all(values.gate), all(values.up)},
          {all(values.product)});
  return body.linear(prefix + "down_proj", all(values.product), w.down, precision, {"mlpwo"});
}

TensorId add_mlp_backward(Layer& layer, const std::string& prefix, TensorId dy, TensorId x,
                          const MlpValues& values) {
  const MlpWeights& w = layer.stack.weights.mlp;
  const Precision precision = layer.build.precision.mlp;
  Body& body = layer.body;
  const TensorId d_product =
      body.linear_backward(prefix + "down_proj", dy, values.product, w.down, precision);
  const int64_t width = body.shape_of(values.gate).back();
  const TensorId d_gate = body.value(prefix + "d_gate", width);
  const TensorId d_up = body.value(prefix + "d_up", width);
  body.op(OpKind::swiglu_backward, prefix + "swiglu.backward",
          {all(values.gate), all(values.up), all(d_product)}, {all(d_gate), all(d_up)});
  const TensorId by_gate = body.linear_backward(prefix + "gate_proj", d_gate, x, w.gate, precision);
  const TensorId by_up = body.linear_backward(prefix + "up_proj", d_up, x, w.up, precision);
  return body.add(prefix + "d_mlp_input", all(by_gate), all(by_up));
}

}  // namespace spillway
