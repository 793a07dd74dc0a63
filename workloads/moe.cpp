// A mixture of experts: router, routed experts, shared experts. How tokens come to their experts
// and back is moe_dispatch.cpp.
#include "workloads/layer_parts.h"

namespace spillway {
namespace {

Routing routing_of(const MoeConfig& moe, const RoutingChoice& choice) {
  Routing routing;
  routing.score = moe.score;
  routing.experts = moe.experts;
  routing.top_k = moe.top_k;
  routing.groups = moe.groups;
  routing.top_groups = moe.top_groups;
  routing.group_score = moe.group_score;
  routing.normalise = moe.normalise;
  routing.scale = moe.scale;
  routing.choice = choice.kind;
  routing.zipf = choice.exponent;
  return routing;
}

// From operands as wide as the stream to fp32 logits: scores that lie close must not be rounded
// into a tie.
void add_router(Layer& layer, TensorId x, RouteValues& route) {
  const MoeConfig& moe = *layer.build.config.moe;
  Body& body = layer.body;
  route.logits = body.value("router_logits", moe.experts, {}, DType::f32);
  Attributes product;
  product.transpose_b = true;
  product.precision = layer.build.precision.router;
  body.op(OpKind::matmul, "router", {all(x), body.layer_of(layer.stack.weights.router.compute)},
          {all(route.logits)}, product);
  route.experts = body.value("route_experts", moe.top_k, {}, DType::i32);
  route.weights = body.value("route_weights", moe.top_k, {}, DType::f32);
  std::vector<Operand> inputs = {all(route.logits)};
  if (layer.stack.weights.correction_bias != no_tensor)
    inputs.push_back(body.layer_of(layer.stack.weights.correction_bias));
  Attributes attributes;
  attributes.routing = routing_of(moe, layer.build.moe.routing);
  body.op(OpKind::router, "route", inputs, {all(route.experts), all(route.weights)}, attributes);
}

// Gradient by x through the weights of the experts; which experts are taken has none.
TensorId add_router_backward(Layer& layer, TensorId d_weights, TensorId x,
                             const RouteValues& route) {
  const MoeConfig& moe = *layer.build.config.moe;
  const TensorId d_logits = layer.body.value("d_router_logits", moe.experts);
  Attributes attributes;
  attributes.routing = routing_of(moe, layer.build.moe.routing);
  layer.body.op(OpKind::router_backward, "route.backward",
                {all(route.logits), all(route.experts), all(d_weights)}, {all(d_logits)},
                attributes);
  return layer.body.linear_backward("router", d_logits, x, layer.stack.weights.router,
                                    layer.build.precision.router);
}

// {a, b} or {a, b, offsets}: without offsets every expert has as many rows.
std::vector<Operand> grouped(Operand a, Operand b, const RouteValues& route) {
  std::vector<Operand> inputs = {a, b};
  if (route.offsets != no_tensor) inputs.push_back(all(route.offsets));
  return inputs;
}

// [R, in] x [E, out, in] -> [R, out].
TensorId expert_linear(Layer& layer, const std::string& name, TensorId rows, const Weight& weight,
                       const RouteValues& route, std::vector<std::string> activations) {
  Body& body = layer.body;
  const int64_t out = body.shape_of(weight.compute)[1];
  const TensorId y =
      body.tensor(name, {body.shape_of(rows)[0], out}, body.dtype(), std::move(activations));
  Attributes attributes;
  attributes.transpose_b = true;
  attributes.precision = layer.build.precision.mlp;
  body.op(OpKind::grouped_matmul, name, grouped(all(rows), body.layer_of(weight.compute), route),
          {all(y)}, attributes);
  return y;
}

// As Body::linear_backward: [R, out] to [R, in], with the gradient [E, out, in] of the weight.
TensorId expert_linear_backward(Layer& layer, const std::string& name, TensorId dy, TensorId rows,
                                const Weight& weight, const RouteValues& route) {
  Body& body = layer.body;
  Attributes attributes;
  attributes.precision = layer.build.precision.mlp;
  attributes.transpose_a = true;
  body.op(OpKind::grouped_matmul, name + ".weight_gradient", grouped(all(dy), all(rows), route),
          {body.layer_of(weight.gradient)}, attributes);
  attributes.transpose_a = false;
  const TensorId dx = body.tensor(name + ".input_gradient", body.shape_of(rows), body.dtype());
  body.op(OpKind::grouped_matmul, name + ".input_gradient",
          grouped(all(dy), body.layer_of(weight.compute), route), {all(dx)}, attributes);
  return dx;
}

// MaxText's dropless path names w1 by its own name alone (mechanisms.md 1.3).
std::vector<std::string> up_names(const Layer& layer) {
  if (layer.build.moe.capacity_path) return {"mlpwi_1", "moe_mlpwi_1"};
  return {"moe_mlpwi_1"};
}

void add_experts(Layer& layer, MoeValues& values) {
  const MlpWeights& w = layer.stack.weights.experts;
  MlpValues& experts = values.experts;
  Body& body = layer.body;
  experts.gate = expert_linear(layer, "expert_gate_proj", values.rows, w.gate, values.route,
                               {"mlpwi_0", "moe_mlpwi_0"});
  experts.up =
      expert_linear(layer, "expert_up_proj", values.rows, w.up, values.route, up_names(layer));
  experts.product = body.tensor("expert_product", body.shape_of(experts.gate), body.dtype());
  body.op(OpKind::swiglu, "expert_swiglu", {all(experts.gate), all(experts.up)},
          {all(experts.product)});
  values.expert_output = expert_linear(layer, "expert_down_proj", experts.product, w.down,
                                       values.route, {"mlpwo", "moe_mlpwo"});
}

// Gradient by the rows that the experts read.
TensorId add_experts_backward(Layer& layer, TensorId d_output, const MoeValues& values) {
  const MlpWeights& w = layer.stack.weights.experts;
  const MlpValues& experts = values.experts;
  Body& body = layer.body;
  const TensorId d_product = expert_linear_backward(layer, "expert_down_proj", d_output,
                                                    experts.product, w.down, values.route);
  const TensorId d_gate = body.tensor("expert_d_gate", body.shape_of(experts.gate), body.dtype());
  const TensorId d_up = body.tensor("expert_d_up", body.shape_of(experts.up), body.dtype());
  body.op(OpKind::swiglu_backward, "expert_swiglu.backward",
          {all(experts.gate), all(experts.up), all(d_product)}, {all(d_gate), all(d_up)});
  const TensorId d_rows =
      expert_linear_backward(layer, "expert_gate_proj", d_gate, values.rows, w.gate, values.route);
  const TensorId by_up =
      expert_linear_backward(layer, "expert_up_proj", d_up, values.rows, w.up, values.route);
  body.add_to("d_expert_rows", d_rows, by_up);
  return d_rows;
}

}  // namespace

TensorId add_moe(Layer& layer, TensorId x, LayerValues& values) {
  MoeValues& moe = values.moe;
  add_router(layer, x, moe.route);
  moe.rows = add_dispatch(layer, x, moe.route);
  add_experts(layer, moe);
  const TensorId routed = add_combine(layer, moe.expert_output, moe.route);
  if (!layer.stack.weights.mlp.gate.exists()) return routed;
  const TensorId shared = add_mlp(layer, "shared_", x, values.mlp);
  return layer.body.add("moe_output", all(routed), all(shared));
}

TensorId add_moe_backward(Layer& layer, TensorId dy, TensorId x, const LayerValues& values) {
  const MoeValues& moe = values.moe;
  const CombineGradients by = add_combine_backward(layer, dy, moe.expert_output, moe.route);
  const TensorId d_rows = add_experts_backward(layer, by.rows, moe);
  const TensorId d_x = add_dispatch_backward(layer, d_rows, moe.route);
  layer.body.add_to("d_routed", d_x, add_router_backward(layer, by.weights, x, moe.route));
  if (layer.stack.weights.mlp.gate.exists())
    layer.body.add_to("d_moe_input", d_x, add_mlp_backward(layer, "shared_", dy, x, values.mlp));
  return d_x;
}

}  // namespace spillway
