// The part of the table for latent attention and mixtures of experts.
#include "harness/error.h"
#include "tests/support/op_cases.h"

namespace spillway {
namespace {

constexpr DType fp32 = DType::f32, bfloat = DType::bf16, ints = DType::i32;

Item given(Shape shape, Values values) {
  return {std::move(shape), ints, Item::Fill::given, 0, std::move(values)};
}

// 0 .. n-1 in an order that is no rotation: 7 and n have no common factor.
Values scattered(int64_t n) {
  Values values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<double>(i * 7 % n));
  return values;
}

// Slot j of token t gets expert (t k + j) mod E.
Values in_turn(int64_t slots, int64_t experts) {
  Values values;
  for (int64_t i = 0; i < slots; ++i)
    values.push_back(static_cast<double>(i % experts));
  return values;
}

void put(std::vector<OpCase>& cases, OpKind kind, DType x, const std::string& words,
         const Attributes& a, std::vector<Item> inputs, std::vector<Item> outputs,
         std::vector<Shared> in_place = {}) {
  cases.push_back({text(info(kind).name, "_", words, "_", name_of(x)), kind, a, std::move(inputs),
                   std::move(outputs), std::move(in_place)});
}

void add_columns(std::vector<OpCase>& cases, DType x) {
  const Item wide{{41, 70}, x}, bias{{70}, x}, sums{{70}, fp32}, left{{41, 13}, x},
      right{{41, 57}, x}, long_column{{3001, 3}, x};
  Attributes a;
  put(cases, OpKind::add_bias, x, "odd", a, {wide, bias}, {wide});
  put(cases, OpKind::add_bias, x, "in_place", a, {wide, bias}, {wide}, {{0, 0}});
  put(cases, OpKind::bias_backward, x, "odd", a, {wide}, {sums});
  put(cases, OpKind::bias_backward, x, "rows", a, {long_column}, {{{3}, x}});
  put(cases, OpKind::concat_columns, x, "odd", a, {left, right}, {wide});
  a.first_column = 13;
  put(cases, OpKind::columns, x, "odd", a, {wide}, {right});
}

void add_latent_keys(std::vector<OpCase>& cases, DType x) {
  Attributes a;
  a.batch = 2;
  a.seq = 19;
  a.heads = 3;
  a.head_dim = 22;  // 12 + 10
  a.rope_dim = 10;
  a.value_dim = 9;
  const int64_t rows = a.batch * a.seq;
  Attributes wide = a;
  wide.seq = 2;
  wide.heads = 50;
  wide.head_dim = 48;  // 32 + 16
  wide.rope_dim = 16;
  wide.value_dim = 32;
  const Item kv{{rows, 3 * (12 + 9)}, x}, kv_a{{rows, 17 + 10}, x}, key{{rows, 3 * 22}, x},
      value{{rows, 3 * 9}, x}, rope{{rows, 10}, x};
  for (const bool interleaved : {false, true}) {
    a.interleaved = interleaved;
    const std::string words = interleaved ? "interleaved" : "halves";
    put(cases, OpKind::mla_key_value, x, words, a, {kv, kv_a}, {key, value});
    put(cases, OpKind::mla_key_value_backward, x, words, a, {key, value}, {kv, rope});
  }
  const Item wide_kv{{4, 50 * (32 + 32)}, x}, wide_kv_a{{4, 24 + 16}, x}, wide_key{{4, 50 * 48}, x},
      wide_value{{4, 50 * 32}, x}, wide_rope{{4, 16}, x};
  put(cases, OpKind::mla_key_value, x, "many_heads", wide, {wide_kv, wide_kv_a},
      {wide_key, wide_value});
  put(cases, OpKind::mla_key_value_backward, x, "many_heads", wide, {wide_key, wide_value},
      {wide_kv, wide_rope});
}

void add_turns(std::vector<OpCase>& cases, DType x) {
  Attributes a;
  a.seq = 23;
  a.heads = 2;
  a.head_dim = 40;
  a.rope.theta = 10000;
  Attributes part = a, pairs = a, yarn = a, linear = a;
  part.rope_dim = 12;
  pairs.rope_dim = 16;
  pairs.interleaved = true;
  yarn.rope = {RopeKind::yarn, 10000, 40};
  yarn.rope.original_max_position = 4096;
  yarn.rope.mscale = 0.707;
  yarn.rope.mscale_all_dim = 0.5;
  yarn.interleaved = true;
  linear.rope.kind = RopeKind::linear;
  linear.rope.factor = 4;
  const Item row{{3 * a.seq, a.heads * a.head_dim}, x};
  for (const OpKind kind : {OpKind::rope, OpKind::rope_backward}) {
    put(cases, kind, x, "part", part, {row}, {row});
    put(cases, kind, x, "pairs", pairs, {row}, {row}, {{0, 0}});
    put(cases, kind, x, "yarn", yarn, {row}, {row});
    put(cases, kind, x, "linear", linear, {row}, {row});
  }
}

void add_value_widths(std::vector<OpCase>& cases, DType x) {
  struct Size {
    int64_t batch, seq, heads, kv_heads, head_dim, value_dim;
    double scale;
  };
  for (const Size s : {Size{1, 9, 2, 2, 6, 4, 0.3},
                       {2, 101, 2, 1, 24, 40, 0},
                       {1, 130, 2, 2, 192, 128, 0.1352},
                       {1, 70, 1, 1, 200, 136, 0}}) {
    Attributes a;
    a.batch = s.batch;
    a.seq = s.seq;
    a.heads = s.heads;
    a.kv_heads = s.kv_heads;
    a.head_dim = s.head_dim;
    a.value_dim = s.value_dim;
    a.scale = s.scale;
    const int64_t rows = s.batch * s.seq;
    const Item q{{rows, s.heads * s.head_dim}, x}, k{{rows, s.kv_heads * s.head_dim}, x},
        v{{rows, s.kv_heads * s.value_dim}, x}, o{{rows, s.heads * s.value_dim}, x},
        lse{{rows, s.heads}, fp32};
    const std::string words = text(s.seq, "_", s.head_dim, "to", s.value_dim);
    put(cases, OpKind::attention, x, words, a, {q, k, v}, {o, lse});
    put(cases, OpKind::attention_backward, x, words, a, {q, k, v, o, lse, o}, {q, k, v});
  }
}

void add_head_norms(std::vector<OpCase>& cases, DType x) {
  Attributes a;
  a.epsilon = 1e-6;
  const Item row{{13, 5 * 24}, x}, w{{24}, x}, dw{{24}, fp32};
  put(cases, OpKind::rms_norm, x, "heads", a, {row, w}, {row});
  put(cases, OpKind::rms_norm_backward, x, "heads", a, {row, w, row}, {row, dw});
  put(cases, OpKind::rms_norm_backward, x, "heads_onto", a, {row, w, row, row}, {row, dw});
}

// As DeepSeek-V3, DeepSeek-V2 and Mixtral route.
std::vector<std::pair<std::string, Routing>> routings() {
  Routing v3, v2, mixtral;
  v3.score = Routing::Score::sigmoid;
  v3.experts = 32;
  v3.top_k = 6;
  v3.groups = 8;
  v3.top_groups = 3;
  v3.scale = 2.5;
  v2.experts = 20;
  v2.top_k = 4;
  v2.groups = 5;
  v2.top_groups = 2;
  v2.group_score = Routing::GroupScore::max;
  v2.normalise = false;
  v2.scale = 16;
  mixtral.experts = 8;
  mixtral.top_k = 2;
  return {{"v3", v3}, {"v2", v2}, {"mixtral", mixtral}};
}

void add_routers(std::vector<OpCase>& cases) {
  using Choice = Routing::Choice;
  for (const auto& [name, routing] : routings()) {
    for (const int64_t tokens : {1, 67}) {
      const int64_t k = routing.top_k, e = routing.experts;
      const Item logits{{tokens, e}, fp32}, bias{{e}, fp32}, weights{{tokens, k}, fp32},
          experts{{tokens, k}, ints}, taken = given({tokens, k}, in_turn(tokens * k, e));
      const std::string words = text(name, "_", tokens);
      Attributes a;
      a.routing = routing;
      put(cases, OpKind::router, fp32, words, a, {logits}, {experts, weights});
      put(cases, OpKind::router, fp32, words + "_bias", a, {logits, bias}, {experts, weights});
      a.routing.choice = Choice::one;
      put(cases, OpKind::router, fp32, words + "_one", a, {logits}, {experts, weights});
      a.routing.choice = Choice::uniform;
      put(cases, OpKind::router, fp32, words + "_uniform", a, {logits}, {experts, weights});
      for (const DType x : {fp32, bfloat})
        put(cases, OpKind::router_backward, x, words, a, {logits, taken, weights},
            {{{tokens, e}, x}});
    }
  }
}

void add_permutations(std::vector<OpCase>& cases, DType x) {
  struct Size {
    int64_t tokens, k, experts, width;
  };
  for (const Size s :
       {Size{1, 1, 3, 5}, {1, 4, 4, 33}, {50, 3, 8, 70}, {600, 6, 40, 20}, {4, 2, 3, 2100}}) {
    const int64_t rows = s.tokens * s.k;
    const Item token{{s.tokens, s.width}, x}, routed{{rows, s.width}, x},
        experts{{s.tokens, s.k}, ints, Item::Fill::token, s.experts}, slot{{s.tokens, s.k}, ints},
        order = given({rows}, scattered(rows)), position = given({s.tokens, s.k}, scattered(rows)),
        weights{{s.tokens, s.k}, fp32};
    const std::string words = text(s.tokens, "x", s.k, "of", s.experts);
    const Attributes a;
    if (x == fp32) {
      put(cases, OpKind::route_sort, x, words, a, {experts},
          {{{rows}, ints}, slot, {{s.experts + 1}, ints}});
    }
    put(cases, OpKind::permute, x, words, a, {token, order}, {routed});
    put(cases, OpKind::permute_backward, x, words, a, {routed, position}, {token});
    put(cases, OpKind::combine, x, words, a, {routed, position, weights}, {token});
    put(cases, OpKind::combine_backward, x, words, a, {token, routed, position, weights},
        {routed, weights});
  }
}

struct Groups {
  std::string name;
  int64_t rows, n, k;
  Values offsets;
};

// Uneven, with empty groups; everything in one; one row in all; a buffer that is not full.
std::vector<Groups> group_cases() {
  return {{"uneven", 29, 7, 9, {0, 3, 3, 20, 28, 28, 29}},
          {"all_to_one", 40, 5, 33, {0, 40, 40, 40}},
          {"one_row", 1, 6, 4, {0, 0, 0, 1}},
          {"ragged", 64, 24, 17, {0, 10, 21, 21, 37}},
          {"long", 700, 130, 65, {0, 0, 0, 421, 421, 600, 633, 700}},
          {"wide", 390, 70, 530, {0, 389, 389, 390}}};
}

void add_grouped(std::vector<OpCase>& cases, DType in, DType out) {
  for (const Groups& g : group_cases()) {
    const auto count = static_cast<int64_t>(g.offsets.size()) - 1;
    const Item offsets = given({count + 1}, g.offsets);
    const Shape weights{count, g.n, g.k}, wide{g.rows, g.n}, narrow{g.rows, g.k};
    Attributes a;
    const std::string words = text(g.name, "_", name_of(in), "_");
    put(cases, OpKind::grouped_matmul, out, words + "input", a,
        {{wide, in}, {weights, in}, offsets}, {{narrow, out}});
    a.transpose_b = true;
    put(cases, OpKind::grouped_matmul, out, words + "forward", a,
        {{narrow, in}, {weights, in}, offsets}, {{wide, out}});
    a.transpose_a = true;
    a.transpose_b = false;
    put(cases, OpKind::grouped_matmul, out, words + "weight", a,
        {{wide, in}, {narrow, in}, offsets}, {{weights, out}});
  }
}

// Without offsets: three groups of 13 rows.
void add_even_groups(std::vector<OpCase>& cases, DType in, DType out) {
  const Shape weights{3, 7, 9}, wide{39, 7}, narrow{39, 9};
  Attributes a;
  const std::string words = text("even_", name_of(in), "_");
  put(cases, OpKind::grouped_matmul, out, words + "input", a, {{wide, in}, {weights, in}},
      {{narrow, out}});
  a.transpose_b = true;
  put(cases, OpKind::grouped_matmul, out, words + "forward", a, {{narrow, in}, {weights, in}},
      {{wide, out}});
  a.transpose_a = true;
  a.transpose_b = false;
  put(cases, OpKind::grouped_matmul, out, words + "weight", a, {{wide, in}, {narrow, in}},
      {{weights, out}});
}

void add_capacity(std::vector<OpCase>& cases, DType x) {
  struct Size {
    int64_t batch, seq, k, experts, capacity, width;
  };
  for (const Size s : {Size{1, 1, 1, 2, 1, 4},
                       {2, 13, 2, 4, 5, 21},
                       {3, 40, 3, 8, 15, 70},
                       {2, 700, 2, 300, 5, 2}}) {
    Attributes a;
    a.batch = s.batch;
    a.seq = s.seq;
    a.capacity = s.capacity;
    const int64_t tokens = s.batch * s.seq, slots = s.experts * s.capacity;
    const Item experts{{tokens, s.k}, ints, Item::Fill::token, s.experts},
        weights{{tokens, s.k}, fp32}, mask{{tokens, slots}, x}, token{{tokens, s.width}, x},
        y{{slots * s.batch, s.width}, x}, slot{{tokens, s.k}, ints}, dropped{{1}, ints};
    Values filled = in_turn(tokens * s.k, slots);
    for (size_t i = 4; i < filled.size(); i += 5)
      filled[i] = -1;
    const std::string words = text(s.batch, "x", s.seq, "_", s.experts, "x", s.capacity);
    put(cases, OpKind::capacity_mask, x, words, a, {experts, weights}, {mask, mask, slot, dropped});
    put(cases, OpKind::capacity_mask_backward, x, words, a, {mask, given({tokens, s.k}, filled)},
        {weights});
    put(cases, OpKind::dispatch_einsum, x, words, a, {mask, token}, {y});
    put(cases, OpKind::combine_einsum, x, words, a, {mask, y}, {token});
    put(cases, OpKind::mask_gradient, x, words, a, {token, y}, {mask});
    const auto in = [](Item item, DType narrow) { return Item{item.shape, narrow}; };
    put(cases, OpKind::dispatch_einsum, x, words + "_fp8", a,
        {in(mask, DType::e4m3), in(token, DType::e5m2)}, {y});
    put(cases, OpKind::combine_einsum, x, words + "_fp8", a,
        {in(mask, DType::e4m3), in(y, DType::e4m3)}, {token});
    put(cases, OpKind::mask_gradient, x, words + "_nvfp4", a,
        {in(token, DType::nvfp4), in(y, DType::nvfp4)}, {mask});
  }
}

}  // namespace

void add_moe_cases(std::vector<OpCase>& cases) {
  add_routers(cases);
  for (const auto& [in, out] : {std::pair{fp32, fp32},
                                {bfloat, bfloat},
                                {bfloat, fp32},
                                {fp32, bfloat},
                                {DType::e4m3, bfloat}}) {
    add_grouped(cases, in, out);
    add_even_groups(cases, in, out);
  }
  for (const DType x : {fp32, bfloat}) {
    add_columns(cases, x);
    add_latent_keys(cases, x);
    add_turns(cases, x);
    add_value_widths(cases, x);
    add_head_norms(cases, x);
    add_permutations(cases, x);
    add_capacity(cases, x);
  }
}

}  // namespace spillway
