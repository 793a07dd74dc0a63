// A training step as a value: named tensors and ops over them, in segments.
// Nothing here runs, schedules or places anything; passes rewrite a Program and executors run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/shape.h"

namespace spillway {

// The narrow ones hold quantised operands of products, scales included (narrow.h): only the op
// quantise makes them and only products read them. nvfp4 shares its block scales along the last
// axis, nvfp4_rows along the one before it.
enum class DType : uint8_t { f32, bf16, i32, e4m3, e5m2, nvfp4, nvfp4_rows };
constexpr bool is_narrow(DType dtype) { return dtype >= DType::e4m3; }
constexpr bool is_fp8(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }
// Of one element of a plain dtype.
constexpr int64_t bytes_of(DType dtype) {
  if (is_narrow(dtype)) throw std::logic_error("a quantised tensor is no array of elements");
  return dtype == DType::bf16 ? 2 : 4;
}
const char* name_of(DType dtype);
// Of a whole quantised slice: codes, block scales, tensor scale (narrow.h).
int64_t packed_bytes(DType dtype, const Shape& shape);

enum class Space : uint8_t { device, host };

// What the bytes are for; the rows of `peak_hbm_by_role`.
enum class Role : uint8_t {
  parameter,        // weights: fp32 (or what --state-bytes says) and the bf16 copy beside them
  gradient,         // reduced weight gradients, persistent
  optimizer,        // Adam's m and v
  kept,             // activations saved on the device from forward to backward (stacked residuals)
  in_flight,        // buffers a host copy reads or writes (source or landing place), rings included
  gathered_weight,  // full weights after an all-gather, full gradients before a reduce-scatter
  logits,
  activation,  // everything else a body computes
  workspace,
};
inline constexpr int role_count = 9;
const char* name_of(Role role);  // plural as in JSON: "parameters", "gradients", ...

// How long a tensor lives.
enum class Extent : uint8_t {
  persistent,  // before the first step to after the last one
  step,        // from the first segment that touches it to the last one
  local,       // inside one iteration of one segment body
};

// How a persistent tensor is filled before step 0.
enum class Init : uint8_t { none, zero, one, normal, tokens, targets };

inline int64_t elements_of(const Shape& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape)
    elements *= extent;
  return elements;
}

using TensorId = int32_t;
inline constexpr TensorId no_tensor = -1;

// Ids and positions are signed (-1: none); this makes one an index, which must not be negative.
constexpr size_t index_of(int32_t id) { return static_cast<size_t>(id); }

// Memory is `slices` contiguous slices of `shape`, no padding between them. A plain tensor has one
// slice; a stacked tensor has one per layer; a ring has k slots used in turn.
struct Tensor {
  std::string name;
  Shape shape;  // of one slice
  DType dtype = DType::f32;
  Role role = Role::activation;
  Extent extent = Extent::local;
  Space space = Space::device;
  int64_t slices = 1;
  bool ring = false;  // slice numbers are taken modulo `slices`
  // How many rows of it are used is data; shape[0] is the bound that is planned for.
  bool ragged = false;
  // MaxText names of this value (mechanisms.md 1.3); several names for one tensor store it once.
  std::vector<std::string> activations;
  Init init = Init::none;
  double init_scale = 0;  // standard deviation for Init::normal; vocabulary for tokens, targets
  TensorId init_from = no_tensor;  // filled by converting this tensor (a compute copy of a weight)

  int64_t slice_elements() const { return elements_of(shape); }
  int64_t slice_bytes() const {
    return is_narrow(dtype) ? packed_bytes(dtype, shape) : slice_elements() * bytes_of(dtype);
  }
  int64_t bytes() const { return slices * slice_bytes(); }
};

// Which slice an operand means in iteration i of its segment: all of the tensor, or slice
// stride * i + offset (modulo `slices` in a ring).
struct Index {
  bool whole = true;
  int64_t stride = 0;
  int64_t offset = 0;

  static Index all() { return {}; }
  static Index at(int64_t stride, int64_t offset) { return {false, stride, offset}; }
  friend bool operator==(const Index&, const Index&) = default;
};

struct Operand {
  TensorId tensor = no_tensor;
  Index index;
  friend bool operator==(const Operand&, const Operand&) = default;
};

enum class OpKind : uint8_t {
  embed,
  embed_backward,
  rms_norm,
  rms_norm_backward,
  matmul,
  rope,
  rope_backward,
  attention,
  attention_backward,
  add,
  swiglu,
  swiglu_backward,
  cross_entropy,
  adamw,
  slice_cast,      // one layer of a stacked shard, converted to the compute dtype
  all_gather,      // shard -> full, over all devices
  reduce_scatter,  // full gradient -> this device's shard (sum over devices)
  write_slice,     // shard of a gradient into the stacked gradient, converted to its dtype
  copy_d2h,
  copy_h2d,
  copy_d2d,
  add_bias,
  bias_backward,
  columns,         // some columns of a tensor
  concat_columns,  // two tensors side by side
  mla_key_value,   // keys and values of latent attention, the shared rope key turned and spread
  mla_key_value_backward,
  router,  // logits -> experts of each token and their weights
  router_backward,
  route_sort,  // experts of tokens -> order by expert
  permute,     // rows of tokens by expert
  permute_backward,
  grouped_matmul,  // rows of each group times a matrix of their own
  combine,         // weighted sum of a token's rows
  combine_backward,
  capacity_mask,  // experts of tokens -> masks over a fixed number of slots an expert
  capacity_mask_backward,
  dispatch_einsum,  // mask x tokens -> slots
  combine_einsum,   // mask x slots -> tokens
  mask_gradient,
  all_to_all,  // rows to the devices that hold their experts, and back
  quantise,    // an operand of a product in a narrow format, with its scales
};
inline constexpr int op_kind_count = 42;

// Products of two matrices, their first two operands, one group of rows or all of them.
constexpr bool is_product(OpKind kind) {
  switch (kind) {
    case OpKind::matmul:
    case OpKind::grouped_matmul:
    case OpKind::dispatch_einsum:
    case OpKind::combine_einsum:
    case OpKind::mask_gradient:
      return true;
    default:
      return false;
  }
}

// Number format a matmul runs in. Below bf16 its operands are quantised copies of tensors that stay
// in the program's dtype.
enum class Precision : uint8_t { fp32, bf16, fp8, nvfp4 };
const char* name_of(Precision precision);

// How frequencies are stretched over longer sequences (transformers' modeling_rope_utils.py).
enum class RopeKind : uint8_t { none, llama3, yarn, linear };

// Rotary embedding as a config states it.
struct Rope {
  RopeKind kind = RopeKind::none;
  double theta = 10000;
  double factor = 1;                     // every kind but none
  double low_freq_factor = 1;            // llama3
  double high_freq_factor = 4;           // llama3
  int64_t original_max_position = 8192;  // llama3, yarn
  // yarn only, as the rest.
  double beta_fast = 32;
  double beta_slow = 1;
  double mscale = 0;
  double mscale_all_dim = 0;
  double attention_factor = 0;  // 0: from factor, mscale and mscale_all_dim
  bool truncate = true;         // the range from beta_fast to beta_slow goes by whole pairs
  friend bool operator==(const Rope&, const Rope&) = default;
};

// How a router takes experts and weighs them (router.cpp).
struct Routing {
  enum class Score : uint8_t { softmax, sigmoid };
  enum class GroupScore : uint8_t { top2_sum, max };
  // model: by the scores. Else without them, for data of a known skew: uniform over tokens in turn,
  // zipf drawn with probability ~ 1 / rank^zipf, one = the first top_k experts for every token.
  enum class Choice : uint8_t { model, uniform, zipf, one };

  Score score = Score::softmax;
  int64_t experts = 0, top_k = 0;
  int64_t groups = 1, top_groups = 1;  // experts are taken from the best top_groups groups
  GroupScore group_score = GroupScore::top2_sum;
  bool normalise = true;  // weights of a token sum to `scale`
  double scale = 1;
  Choice choice = Choice::model;
  double zipf = 0;
  uint64_t seed = 0;
  friend bool operator==(const Routing&, const Routing&) = default;
};

// What an op needs beyond its operands. Each op's file says which fields it reads.
struct Attributes {
  int64_t batch = 0, seq = 0;  // rows of activations are batch * seq, row = b * seq + s
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t value_dim = 0;                          // attention: 0 for head_dim
  double scale = 0;                               // attention: 0 for 1 / sqrt(head_dim)
  bool transpose_a = false, transpose_b = false;  // matmul: a is [k, m], b is [n, k]
  Precision precision = Precision::bf16;          // matmul, grouped_matmul, attention
  bool plain = false;  // attention on a GPU: a kernel of ours, even where a library has one
  double epsilon = 0;  // rms_norm
  Rope rope;
  int64_t rope_dim = 0;      // rope: the last columns of each head that turn; 0 for all
  bool interleaved = false;  // rope: pairs (2i, 2i + 1) come in, the two halves go out
  int64_t first_column = 0;  // columns
  Routing routing;           // router
  int64_t capacity = 0;      // masks: slots of an expert in one sequence
  double learning_rate = 0, beta1 = 0, beta2 = 0, adam_epsilon = 0, weight_decay = 0;  // adamw
  int64_t devices = 1;  // collectives: size of the group
  // products: bytes, in the program's dtype, of operands whose quantised copies nothing before it in
  // the body reads
  int64_t quantised_bytes = 0;
  std::string activation;  // host copies: the policy's name of what is moved
  friend bool operator==(const Attributes&, const Attributes&) = default;
};

// Operands are read-only inputs and written outputs. A tensor in both is updated in place.
// Outputs are written entirely. The order of operands is stated in the op's own file.
struct Op {
  OpKind kind = OpKind::add;
  std::string name;  // unique in its segment
  std::vector<Operand> inputs, outputs;
  Attributes attributes;
  // Where passes had a reason of their own for it; nothing runs differently. For explanations.
  bool recomputed = false;  // a forward op that a policy runs again in a backward body
  bool peeled = false;      // stands in an end that loop rotation cut off
};

enum class Pass : uint8_t { forward, backward, other };

// A body run `trips` times. The ops in their order define the meaning (sequential semantics);
// a scheduler may reorder what does not conflict.
struct Segment {
  std::string name;
  Pass pass = Pass::other;
  int64_t trips = 1;
  // backward of a scanned stack: the forward segment whose values it reads. Iteration i of this
  // segment belongs to iteration trips - 1 - i of that one. -1 otherwise.
  int forward_segment = -1;
  std::vector<Op> ops;
};

struct Program {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Segment> segments;
  int64_t devices = 1;
  int64_t batch = 0, seq = 0;  // per device
  TensorId loss = no_tensor;   // f32, one element, mean over the tokens of this device

  const Tensor& at(TensorId id) const { return tensors[static_cast<size_t>(id)]; }
  Tensor& at(TensorId id) { return tensors[static_cast<size_t>(id)]; }
  TensorId add(Tensor tensor) {
    tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(tensors.size()) - 1;
  }
};

// First byte (relative to the tensor) and number of bytes of an operand in iteration i.
struct ByteRange {
  int64_t begin = 0, size = 0;
};
ByteRange range_of(const Program& program, const Operand& operand, int64_t iteration);

// How far a Program has come; verify() asks more of later stages.
enum class Stage : uint8_t {
  built,     // the backward may read forward-local values of its own layer: no policy chosen yet
  complete,  // every local tensor is produced in the body that reads it
};

// Checks every rule of a well-formed Program (unique names, shapes each op accepts, slices in
// range for every iteration, locals written before read and used in one segment only, spaces legal
// for each op). Throws std::logic_error naming segment, op and operand: a broken Program is our
// bug.
void verify(const Program& program, Stage stage);

// A readable listing: one line a tensor, one line an op.
std::string dump(const Program& program);

}  // namespace spillway
