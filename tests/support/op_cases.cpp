// The table.
#include "tests/support/op_cases.h"

#include "harness/error.h"

namespace spillway {
namespace {

constexpr DType f32 = DType::f32, bf16 = DType::bf16, i32 = DType::i32;

Item tokens(int64_t rows, int64_t vocabulary) {
  return {{rows}, i32, Item::Fill::token, vocabulary};
}

// What the case is called: kind, sizes, dtype; made unique by the caller's words.
template <class... Words>
std::string called(OpKind kind, DType dtype, const Words&... words) {
  return text(info(kind).name, "_", words..., "_", name_of(dtype));
}

void add_matmuls(std::vector<OpCase>& cases) {
  struct Size {
    int64_t m, n, k;
  };
  for (const Size s :
       {Size{1, 1, 1}, {3, 5, 7}, {64, 48, 32}, {97, 131, 300}, {401, 67, 33}, {5, 700, 515}}) {
    for (const int transposes : {0, 1, 2, 3}) {
      for (const auto& [in, out] : {std::pair{f32, f32}, {bf16, bf16}, {bf16, f32}}) {
        Attributes a;
        a.transpose_a = (transposes & 1) != 0;
        a.transpose_b = (transposes & 2) != 0;
        const Shape left = a.transpose_a ? Shape{s.k, s.m} : Shape{s.m, s.k};
        const Shape right = a.transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n};
        const std::string name =
            called(OpKind::matmul, out, s.m, "x", s.n, "x", s.k, "_", transposes, "_", name_of(in));
        cases.push_back(
            {name, OpKind::matmul, a, {{left, in}, {right, in}}, {{{s.m, s.n}, out}}, {}});
      }
    }
  }
}

// Quantised operands of products: both orders of the FP8 formats, NVFP4 with blocks along what is
// summed.
void add_narrow(std::vector<OpCase>& cases) {
  constexpr DType e4m3 = DType::e4m3, e5m2 = DType::e5m2;
  for (const DType x : {f32, bf16})
    for (const DType narrow : {e4m3, e5m2, DType::nvfp4, DType::nvfp4_rows})
      for (const Shape& shape :
           {Shape{40}, Shape{1, 1}, Shape{7, 33}, Shape{131, 80}, Shape{3, 20, 48}})
        cases.push_back(op_case(called(OpKind::quantise, x, shape.size(), "d_", elements_of(shape),
                                       "_", name_of(narrow)),
                                OpKind::quantise, {{shape, x}}, {{shape, narrow}}));
  struct Size {
    int64_t m, n, k;
  };
  for (const Size s : {Size{1, 1, 1}, {37, 20, 64}, {131, 96, 83}})
    for (const int transposes : {0, 1, 2, 3})
      for (const auto& [left, right] :
           {std::pair{e4m3, e4m3}, {e5m2, e4m3}, {DType::nvfp4, DType::nvfp4}}) {
        Attributes a;
        a.transpose_a = (transposes & 1) != 0;
        a.transpose_b = (transposes & 2) != 0;
        const bool blocks = left == DType::nvfp4;
        const DType in_a = blocks && a.transpose_a ? DType::nvfp4_rows : left;
        const DType in_b = blocks && !a.transpose_b ? DType::nvfp4_rows : right;
        const Shape shape_a = a.transpose_a ? Shape{s.k, s.m} : Shape{s.m, s.k};
        const Shape shape_b = a.transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n};
        const DType out = s.m == 37 ? f32 : bf16;
        cases.push_back({called(OpKind::matmul, out, s.m, "x", s.n, "x", s.k, "_", transposes, "_",
                                name_of(left), "_", name_of(right)),
                         OpKind::matmul,
                         a,
                         {{shape_a, in_a}, {shape_b, in_b}},
                         {{{s.m, s.n}, out}},
                         {}});
      }
}

void add_attention(std::vector<OpCase>& cases) {
  struct Size {
    int64_t batch, seq, heads, kv_heads, head_dim;
  };
  for (const Size s : {Size{1, 1, 1, 1, 2},
                       {2, 17, 4, 2, 16},
                       {1, 131, 3, 1, 24},
                       {3, 96, 2, 2, 64},
                       {1, 200, 8, 2, 40},
                       {2, 100, 2, 1, 128}}) {
    for (const DType x : {f32, bf16}) {
      Attributes a;
      a.batch = s.batch;
      a.seq = s.seq;
      a.heads = s.heads;
      a.kv_heads = s.kv_heads;
      a.head_dim = s.head_dim;
      const int64_t rows = s.batch * s.seq;
      const Item q{{rows, s.heads * s.head_dim}, x}, kv{{rows, s.kv_heads * s.head_dim}, x},
          lse{{rows, s.heads}, f32};
      const auto name = [&](OpKind kind) {
        return called(kind, x, s.batch, "x", s.seq, "_heads", s.heads, "of", s.kv_heads, "_",
                      s.head_dim);
      };
      cases.push_back({name(OpKind::attention), OpKind::attention, a, {q, kv, kv}, {q, lse}, {}});
      cases.push_back({name(OpKind::attention_backward),
                       OpKind::attention_backward,
                       a,
                       {q, kv, kv, q, lse, q},
                       {q, kv, kv},
                       {}});
    }
  }
}

void add_norms(std::vector<OpCase>& cases, DType x) {
  struct Size {
    int64_t rows, width;
  };
  Attributes a;
  a.epsilon = 1e-5;
  const OpKind forward = OpKind::rms_norm, backward = OpKind::rms_norm_backward;
  for (const Size s : {Size{1, 1}, {7, 33}, {70, 1000}, {130, 1536}, {3, 20008}}) {
    const Item row{{s.rows, s.width}, x}, w{{s.width}, x}, dw{{s.width}, f32};
    const auto name = [&](OpKind kind, const char* how) {
      return called(kind, x, s.rows, "x", s.width, how);
    };
    cases.push_back({name(forward, ""), forward, a, {row, w}, {row}, {}});
    cases.push_back({name(backward, ""), backward, a, {row, w, row}, {row, dw}, {}});
    cases.push_back({name(backward, "_onto"), backward, a, {row, w, row, row}, {row, dw}, {}});
    cases.push_back(
        {name(backward, "_in_place"), backward, a, {row, w, row, row}, {row, dw}, {{3, 0}}});
  }
}

void add_rope(std::vector<OpCase>& cases, DType x) {
  Attributes a;
  a.seq = 37;
  a.heads = 3;
  a.head_dim = 24;
  a.rope.theta = 500000;
  Attributes wide = a;
  wide.seq = 3;
  wide.heads = 70;
  wide.head_dim = 128;
  wide.interleaved = true;
  const Item row{{2 * a.seq, a.heads * a.head_dim}, x},
      wide_row{{2 * wide.seq, wide.heads * wide.head_dim}, x};
  for (const OpKind kind : {OpKind::rope, OpKind::rope_backward}) {
    cases.push_back({called(kind, x, "odd"), kind, a, {row}, {row}, {}});
    cases.push_back({called(kind, x, "in_place"), kind, a, {row}, {row}, {{0, 0}}});
    cases.push_back({called(kind, x, "many_heads"), kind, wide, {wide_row}, {wide_row}, {{0, 0}}});
  }
}

void add_elementwise(std::vector<OpCase>& cases, DType x) {
  for (const int64_t n : {1, 1023, 70001}) {
    const Item e{{n}, x}, other{{n}, x == f32 ? bf16 : f32};
    cases.push_back(op_case(called(OpKind::add, x, n), OpKind::add, {e, e}, {e}));
    cases.push_back(
        op_case(called(OpKind::add, x, n, "_in_place"), OpKind::add, {e, e}, {e}, {{1, 0}}));
    cases.push_back(op_case(called(OpKind::swiglu, x, n), OpKind::swiglu, {e, e}, {e}));
    cases.push_back(
        op_case(called(OpKind::swiglu_backward, x, n), OpKind::swiglu_backward, {e, e, e}, {e, e}));
    cases.push_back(op_case(called(OpKind::swiglu_backward, x, n, "_in_place"),
                            OpKind::swiglu_backward, {e, e, e}, {e, e}, {{0, 1}, {2, 0}}));
    cases.push_back(op_case(called(OpKind::slice_cast, x, n), OpKind::slice_cast, {e}, {other}));
    cases.push_back(op_case(called(OpKind::write_slice, x, n), OpKind::write_slice, {e}, {e}));
    for (const OpKind copy : {OpKind::copy_d2h, OpKind::copy_h2d, OpKind::copy_d2d}) {
      cases.push_back(op_case(called(copy, x, n), copy, {e}, {e}));
    }
  }
  cases.push_back(op_case(called(OpKind::copy_d2d, x, "2MiB"), OpKind::copy_d2d, {{{1100000}, x}},
                          {{{1100000}, x}}));
}

void add_embeddings(std::vector<OpCase>& cases, DType x) {
  const Item table{{41, 51}, x}, row{{90, 51}, x}, rows = tokens(90, 41), gradient{{41, 51}, f32};
  const OpKind backward = OpKind::embed_backward;
  cases.push_back(op_case(called(OpKind::embed, x, "odd"), OpKind::embed, {rows, table}, {row}));
  cases.push_back(op_case(called(backward, x, "odd"), backward, {rows, row}, {gradient}));
  cases.push_back(
      op_case(called(backward, x, "table_of_its_dtype"), backward, {rows, row}, {table}));
  cases.push_back(
      op_case(called(backward, x, "onto"), backward, {rows, row, gradient}, {gradient}));
  cases.push_back(op_case(called(backward, x, "in_place"), backward, {rows, row, gradient},
                          {gradient}, {{2, 0}}));
  const Item many = tokens(2100, 5000), narrow{{2100, 3}, x}, tall{{5000, 3}, f32};
  cases.push_back(op_case(called(backward, x, "many_words"), backward, {many, narrow}, {tall}));
}

void add_losses(std::vector<OpCase>& cases, DType x) {
  struct Size {
    int64_t rows, vocabulary;
  };
  for (const Size s : {Size{1, 1}, {9, 37}, {65, 8016}, {3, 20000}}) {
    const Item logits{{s.rows, s.vocabulary}, x}, loss{{1}, f32};
    const std::string name = called(OpKind::cross_entropy, x, s.rows, "x", s.vocabulary);
    cases.push_back(op_case(name, OpKind::cross_entropy, {logits, tokens(s.rows, s.vocabulary)},
                            {loss, logits}));
    cases.push_back(op_case(name + "_in_place", OpKind::cross_entropy,
                            {logits, tokens(s.rows, s.vocabulary)}, {loss, logits}, {{0, 1}}));
  }
}

void add_optimizers(std::vector<OpCase>& cases, DType state) {
  Attributes a;
  a.learning_rate = 0.01;
  a.beta1 = 0.9;
  a.beta2 = 0.95;
  a.adam_epsilon = 1e-8;
  a.weight_decay = 0.1;
  const OpKind adamw = OpKind::adamw;
  const std::vector<Shared> in_place = {{0, 0}, {1, 1}, {2, 2}};
  for (const int64_t width : {7, 20001}) {
    const Item e{{3, width}, f32}, s{{3, width}, state}, copy{{3, width}, bf16};
    const Item v{{3, width}, state, Item::Fill::positive};
    for (const int64_t step : {0, 41}) {
      const std::string size = text(width, "_step", step);
      cases.push_back({called(adamw, state, size), adamw, a, {e, s, v, s}, {e, s, v}, {}, step});
      cases.push_back({called(adamw, state, size, "_with_copy"),
                       adamw,
                       a,
                       {s, s, v, e},
                       {s, s, v, copy},
                       in_place,
                       step});
    }
  }
}

}  // namespace

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  add_matmuls(cases);
  add_narrow(cases);
  add_attention(cases);
  for (const DType x : {f32, bf16}) {
    add_norms(cases, x);
    add_rope(cases, x);
    add_elementwise(cases, x);
    add_embeddings(cases, x);
    add_losses(cases, x);
    add_optimizers(cases, x);
  }
  add_moe_cases(cases);
  return cases;
}

}  // namespace spillway
