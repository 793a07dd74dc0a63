// A stack of layers, forward and backward: one body each, run once a layer. Everything the backward
// reads is read straight from the forward's values of the same layer; whether they were kept, moved
// or computed again is a policy's decision, not this file's.
#include "workloads/layer_parts.h"

namespace spillway {
namespace {

LayerValues add_forward(StepBuild& build, const Stack& stack, Body& body) {
  const ModelConfig& config = build.config;
  const Operand input{build.hidden, Index::at(1, stack.first)};
  const Operand output{build.hidden, Index::at(1, stack.first + 1)};
  Layer layer{build, stack, body};
  LayerValues values;
  values.attention_input =
      body.rms_norm("input_norm", input, stack.weights.input_norm, config.rms_norm_eps);
  const TensorId attended = config.mla ? add_mla(layer, values.attention_input, values.attention)
                                       : add_gqa(layer, values.attention_input, values.attention);
  values.middle = body.add("middle", input, all(attended));
  values.mlp_input =
      body.rms_norm("post_norm", all(values.middle), stack.weights.post_norm, config.rms_norm_eps);
  const TensorId fed = stack.moe ? add_moe(layer, values.mlp_input, values)
                                 : add_mlp(layer, "", values.mlp_input, values.mlp);
  body.op(OpKind::add, "output", {all(values.middle), all(fed)}, {output});
  return values;
}

// Both parts of a layer add to the stream they read, so the stream's gradient passes unchanged and
// gains the part's own: d_hidden is updated in place.
void add_backward(StepBuild& build, const Stack& stack, Body& body) {
  const ModelConfig& config = build.config;
  const LayerValues& saved = stack.saved;
  Layer layer{build, stack, body};
  const TensorId d_mlp_input =
      stack.moe ? add_moe_backward(layer, build.d_hidden, saved.mlp_input, saved)
                : add_mlp_backward(layer, "", build.d_hidden, saved.mlp_input, saved.mlp);
  body.rms_norm_backward("post_norm", all(saved.middle), stack.weights.post_norm, d_mlp_input,
                         build.d_hidden, config.rms_norm_eps);
  const TensorId d_attention_input =
      config.mla ? add_mla_backward(layer, build.d_hidden, saved.attention_input, saved.attention)
                 : add_gqa_backward(layer, build.d_hidden, saved.attention_input, saved.attention);
  const Operand input{build.hidden, Index::at(-1, stack.first + stack.layers - 1)};
  body.rms_norm_backward("input_norm", input, stack.weights.input_norm, d_attention_input,
                         build.d_hidden, config.rms_norm_eps);
}

}  // namespace

void add_forward_layers(StepBuild& build, Stack& stack) {
  Body body(build.program, stack.name + ".", Index::at(1, 0), build.dtype);
  stack.saved = add_forward(build, stack, body);
  stack.forward_segment = static_cast<int>(build.program.segments.size());
  build.program.segments.push_back(
      {stack.name + ".forward", Pass::forward, stack.layers, -1, std::move(body).take_ops()});
}

void add_backward_layers(StepBuild& build, const Stack& stack) {
  Body body(build.program, stack.name + ".", Index::at(-1, stack.layers - 1), build.dtype);
  add_backward(build, stack, body);
  build.program.segments.push_back({stack.name + ".backward", Pass::backward, stack.layers,
                                    stack.forward_segment, std::move(body).take_ops()});
}

}  // namespace spillway
