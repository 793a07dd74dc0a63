// How tokens come to their experts and back. Dropless: rows sorted by expert, k of them a token.
// Capacity: as many slots for every expert, filled and emptied by products with masks (the program
// of NVIDIA's own runs, feasibility.md 1); a token that finds no slot is dropped.
#include <algorithm>
#include <cmath>

#include "workloads/checked.h"
#include "workloads/layer_parts.h"

namespace spillway {
namespace {

// Slots of one expert in one sequence: its even share of the k choices of `seq` tokens, times the
// factor.
int64_t capacity_of(const Layer& layer) {
  const MoeConfig& moe = *layer.build.config.moe;
  const double share = static_cast<double>(layer.body.seq()) * static_cast<double>(moe.top_k) /
                       static_cast<double>(moe.experts);
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(share * layer.build.moe.capacity_factor)));
}

Attributes mask_attributes(const Layer& layer) {
  Attributes attributes;
  attributes.capacity = capacity_of(layer);
  attributes.routing.experts = layer.build.config.moe->experts;
  attributes.routing.top_k = layer.build.config.moe->top_k;
  attributes.precision = layer.build.precision.mlp;
  return attributes;
}

int64_t mask_width(const Layer& layer) {
  return checked_product("experts * capacity",
                         {layer.build.config.moe->experts, capacity_of(layer)});
}

TensorId slot_rows(Layer& layer, const std::string& name) {
  const int64_t rows = checked_product("rows of experts", {mask_width(layer), layer.body.batch()});
  return layer.body.tensor(name, {rows, layer.build.config.hidden_size}, layer.body.dtype());
}

void record(Layer& layer, TensorId counts) {
  layer.body.op(OpKind::copy_d2d, "record", {all(counts)},
                {layer.body.layer_of(layer.stack.routed)});
}

TensorId dispatch_by_masks(Layer& layer, TensorId x, RouteValues& route) {
  Body& body = layer.body;
  route.dispatch_mask = body.value("dispatch_mask", mask_width(layer));
  route.combine_mask = body.value("combine_mask", mask_width(layer));
  route.slots = body.value("route_slots", layer.build.config.moe->top_k, {}, DType::i32);
  const TensorId dropped = body.tensor("route_dropped", {1}, DType::i32);
  body.op(OpKind::capacity_mask, "masks", {all(route.experts), all(route.weights)},
          {all(route.dispatch_mask), all(route.combine_mask), all(route.slots), all(dropped)},
          mask_attributes(layer));
  record(layer, dropped);
  const TensorId rows = slot_rows(layer, "expert_rows");
  body.op(OpKind::dispatch_einsum, "dispatch", {all(route.dispatch_mask), all(x)}, {all(rows)},
          mask_attributes(layer));
  return rows;
}

TensorId dispatch_by_order(Layer& layer, TensorId x, RouteValues& route) {
  const MoeConfig& moe = *layer.build.config.moe;
  Body& body = layer.body;
  const int64_t rows = checked_product("rows of experts", {moe.top_k, body.rows()});
  route.order = body.tensor("route_order", {rows}, DType::i32);
  route.position = body.value("route_position", moe.top_k, {}, DType::i32);
  route.offsets = body.tensor("route_offsets", {moe.experts + 1}, DType::i32);
  body.op(OpKind::route_sort, "sort", {all(route.experts)},
          {all(route.order), all(route.position), all(route.offsets)});
  record(layer, route.offsets);
  const TensorId permuted =
      body.tensor("expert_rows", {rows, layer.build.config.hidden_size}, body.dtype());
  body.op(OpKind::permute, "dispatch", {all(x), all(route.order)}, {all(permuted)});
  return permuted;
}

}  // namespace

TensorId add_dispatch(Layer& layer, TensorId x, RouteValues& route) {
  return layer.build.moe.capacity_path ? dispatch_by_masks(layer, x, route)
                                       : dispatch_by_order(layer, x, route);
}

TensorId add_combine(Layer& layer, TensorId rows, const RouteValues& route) {
  Body& body = layer.body;
  const TensorId out = body.value("routed_output", layer.build.config.hidden_size);
  if (layer.build.moe.capacity_path)
    body.op(OpKind::combine_einsum, "combine", {all(route.combine_mask), all(rows)}, {all(out)},
            mask_attributes(layer));
  else
    body.op(OpKind::combine, "combine", {all(rows), all(route.position), all(route.weights)},
            {all(out)});
  return out;
}

CombineGradients add_combine_backward(Layer& layer, TensorId dy, TensorId rows,
                                      const RouteValues& route) {
  Body& body = layer.body;
  CombineGradients by;
  if (!layer.build.moe.capacity_path) {
    by.rows = body.tensor("d_expert_output", body.shape_of(rows), body.dtype());
    by.weights = body.value("d_route_weights", layer.build.config.moe->top_k, {}, DType::f32);
    body.op(OpKind::combine_backward, "combine.backward",
            {all(dy), all(rows), all(route.position), all(route.weights)},
            {all(by.rows), all(by.weights)});
    return by;
  }
  const TensorId d_mask = body.value("d_combine_mask", mask_width(layer));
  body.op(OpKind::mask_gradient, "combine.mask_gradient", {all(dy), all(rows)}, {all(d_mask)},
          mask_attributes(layer));
  by.weights = body.value("d_route_weights", layer.build.config.moe->top_k, {}, DType::f32);
  body.op(OpKind::capacity_mask_backward, "masks.backward", {all(d_mask), all(route.slots)},
          {all(by.weights)}, mask_attributes(layer));
  by.rows = slot_rows(layer, "d_expert_output");
  body.op(OpKind::dispatch_einsum, "combine.input_gradient", {all(route.combine_mask), all(dy)},
          {all(by.rows)}, mask_attributes(layer));
  return by;
}

TensorId add_dispatch_backward(Layer& layer, TensorId d_rows, const RouteValues& route) {
  Body& body = layer.body;
  const TensorId d_x = body.value("d_dispatched", layer.build.config.hidden_size);
  if (layer.build.moe.capacity_path)
    body.op(OpKind::combine_einsum, "dispatch.backward", {all(route.dispatch_mask), all(d_rows)},
            {all(d_x)}, mask_attributes(layer));
  else
    body.op(OpKind::permute_backward, "dispatch.backward", {all(d_rows), all(route.position)},
            {all(d_x)});
  return d_x;
}

}  // namespace spillway
