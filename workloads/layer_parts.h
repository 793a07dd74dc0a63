// What the files of the program builder share: workload.cpp (ends of the step), weights.cpp,
// layers.cpp (the two bodies of a stack) and the parts a layer is put together from: gqa.cpp or
// mla.cpp, mlp.cpp or moe.cpp with moe_dispatch.cpp. Not for use outside.
#pragma once

#include <string>
#include <vector>

#include "harness/program.h"
#include "workloads/body.h"
#include "workloads/workload.h"

namespace spillway {

// Number formats of the groups of matmuls.
struct Precisions {
  Precision mlp, projection, attention, head, router;
};

// D hidden, H heads, K kv heads, h head_dim, F width of an MLP, V vocabulary. Latent attention: n
// and r columns of a head without and with rotation (n + r = h), v of a value, q and c the ranks of
// the latents. E experts, k of them a token. Weights a model does not have stay empty.
struct AttentionWeights {
  Weight query, key, value;                 // [H h, D], [K h, D], [K h, D]
  Weight query_bias, key_bias, value_bias;  // [H h], [K h], [K h]
  Weight query_norm, key_norm;              // [h]
  Weight query_a, query_a_norm, query_b;    // [q, D], [q], [H h, q]
  Weight kv_a, kv_a_norm, kv_b;             // [c + r, D], [c], [H (n + v), c]
  Weight output;                            // [D, H h] or [D, H v]
};
struct MlpWeights {
  Weight gate, up, down;  // [F, D], [F, D], [D, F]; of routed experts [E, ...] each
};
struct LayerWeights {
  Weight input_norm, post_norm;  // [D]
  AttentionWeights attention;
  MlpWeights mlp;                        // of a dense layer, or the shared experts' together
  Weight router;                         // [E, D]
  TensorId correction_bias = no_tensor;  // [E] f32; no gradient reaches it and no optimizer
  MlpWeights experts;
};

// Values of one layer's forward that its backward reads.
struct AttentionValues {
  TensorId query_projected, key_projected;  // before their norms; [T, H h], [T, K h]
  TensorId query_latent, query_normed;      // [T, q]
  TensorId kv_latent;                       // [T, c + r]: latent and shared rope key
  TensorId kv_columns, kv_normed;           // [T, c]
  TensorId query, key, value;               // [T, H h], [T, K h], [T, K h or H v]
  TensorId context, log_sum_exp;            // [T, H h or H v], [T, H] f32
};
struct MlpValues {
  TensorId gate, up, product;  // [T, F]; of routed experts [R, F]
};
// Where tokens go. R rows in all come to the experts: k T, or E * batch * capacity.
struct RouteValues {
  TensorId logits, experts, weights;                 // [T, E] f32, [T, k] i32, [T, k] f32
  TensorId order = no_tensor, position = no_tensor;  // dropless: [k T], [T, k] i32
  TensorId offsets = no_tensor;                      // dropless: [E + 1] i32
  TensorId dispatch_mask = no_tensor, combine_mask = no_tensor;  // capacity: [T, E * capacity]
  TensorId slots = no_tensor;                                    // capacity: [T, k] i32
};
struct MoeValues {
  RouteValues route;
  TensorId rows;  // [R, D]: what the experts read
  MlpValues experts;
  TensorId expert_output;  // [R, D]
};
struct LayerValues {
  TensorId attention_input;  // [T, D], normed
  AttentionValues attention;
  TensorId middle;     // [T, D]: hidden + attention, input of the second norm
  TensorId mlp_input;  // [T, D], normed
  MlpValues mlp;
  MoeValues moe;
};

// Layers that are all alike: one scanned body in each direction.
struct Stack {
  std::string name;
  bool moe = false;
  int64_t first = 0, layers = 0;  // number of its first layer in the model; trips
  LayerWeights weights;
  // What the routing of each layer did in the last step, i32, for reports: [E + 1], the first row of
  // each expert and their number (dropless), or [1], choices dropped (capacity).
  TensorId routed = no_tensor;
  LayerValues saved = {};  // by the forward body, for the backward body
  int forward_segment = -1;
};

struct StepBuild {
  const ModelConfig& config;
  const MoeOptions& moe;
  Precisions precision;
  DType dtype;         // of activations and of the weights that ops read
  DType logits_dtype;  // as the loss reads them
  Program program = {};
  // Every weight with a gradient, in the order of their tensors.
  std::vector<Weight> optimized = {};
  Weight embedding = {}, final_norm = {};  // [V, D], [D]
  Weight head = {};                        // [V, D]; the embedding itself when tied
  std::vector<Stack> stacks = {};
  TensorId tokens = no_tensor, targets = no_tensor;  // [T] i32
  // [T, D], ring of 2 through all stacks: layer i of the model reads slot i, writes slot i + 1.
  TensorId hidden = no_tensor;
  TensorId d_hidden = no_tensor;  // [T, D]: gradient of the loss by hidden, updated in place
};

// Of the embedding, the stacks, the final norm and the head.
void add_weights(StepBuild& build, const StateBytes& state);

// Appends one segment. The head comes between all forwards and all backwards.
void add_forward_layers(StepBuild& build, Stack& stack);
void add_backward_layers(StepBuild& build, const Stack& stack);

inline Operand all(TensorId tensor) { return Body::all(tensor); }

// One layer under construction, in one direction.
struct Layer {
  const StepBuild& build;
  const Stack& stack;
  Body& body;
};

// Parts of a layer. Forward: x [T, D], normed, to what is added to the stream, [T, D]. Backward:
// from its gradient dy to that by x, [T, D], and the gradients of the part's weights.
TensorId add_gqa(Layer& layer, TensorId x, AttentionValues& values);
TensorId add_gqa_backward(Layer& layer, TensorId dy, TensorId x, const AttentionValues& values);
TensorId add_mla(Layer& layer, TensorId x, AttentionValues& values);
TensorId add_mla_backward(Layer& layer, TensorId dy, TensorId x, const AttentionValues& values);
// `prefix` tells the shared experts' ops from a dense layer's.
TensorId add_mlp(Layer& layer, const std::string& prefix, TensorId x, MlpValues& values);
TensorId add_mlp_backward(Layer& layer, const std::string& prefix, TensorId dy, TensorId x,
                          const MlpValues& values);
TensorId add_moe(Layer& layer, TensorId x, LayerValues& values);
TensorId add_moe_backward(Layer& layer, TensorId dy, TensorId x, const LayerValues& values);

// Of one path or the other (MoeOptions): tokens [T, D] to rows of experts [R, D] and back, and the
// gradients of both, with those of the weights of a token's experts, [T, k] f32.
TensorId add_dispatch(Layer& layer, TensorId x, RouteValues& route);
TensorId add_combine(Layer& layer, TensorId rows, const RouteValues& route);
struct CombineGradients {
  TensorId rows, weights;
};
CombineGradients add_combine_backward(Layer& layer, TensorId dy, TensorId rows,
                                      const RouteValues& route);
TensorId add_dispatch_backward(Layer& layer, TensorId d_rows, const RouteValues& route);

}  // namespace spillway
