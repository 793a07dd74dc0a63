// Large operands that are not rows: matmul's and the embedding table's. Some entries of the result
// are computed apart, straight from what the buffers hold.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/bench/large_case.h"

namespace spillway {
namespace {

constexpr DType bf16 = DType::bf16;
constexpr int64_t many = (int64_t{1} << 20) + 3, width = 1024;
constexpr double ulp = 1.0 / 128;  // of bf16, at most, relative

struct Sizes {
  int64_t m, n, k;
};

double element(const Buffer& buffer, int64_t i) { return decode_range(buffer, i, 1).front(); }

// Sum of products, and of their magnitudes, which bounds what rounding can do.
struct Sum {
  double value = 0, magnitude = 0;
};

Sum entry(const OpCase& c, const Sizes& s, const Buffer& a, const Buffer& b, int64_t i, int64_t j) {
  Sum sum;
  for (int64_t p = 0; p < s.k; ++p) {
    const double x = element(a, c.attributes.transpose_a ? p * s.m + i : i * s.k + p) *
                     element(b, c.attributes.transpose_b ? j * s.k + p : p * s.n + j);
    sum.value += x;
    sum.magnitude += std::abs(x);
  }
  return sum;
}

Verdict run_product(const OpCase& c, const Sizes& s) {
  LargeMemory memory;
  const Buffer a = memory.filled(c.inputs[0]), b = memory.filled(c.inputs[1]),
               out = memory.empty(c.outputs[0]);
  Verdict verdict;
  verdict.seconds = run_timed(c, {a, b}, {out});
  const double rounding = out.dtype == bf16 ? ulp : 1e-6;
  for (const int64_t i : {int64_t{0}, s.m / 2, s.m - 2, s.m - 1}) {
    for (const int64_t j : {int64_t{0}, s.n / 2, s.n - 2, s.n - 1}) {
      const Sum want = entry(c, s, a, b, i, j);
      const double error = std::abs(element(out, i * s.n + j) - want.value);
      const double bound = rounding * std::abs(want.value) + 1e-5 * want.magnitude;
      verdict.take(rounding * error / bound, rounding);
    }
  }
  return verdict;
}

LargeCheck product(const Sizes& s, bool transpose_a, bool transpose_b, DType out) {
  std::string name =
      std::string(transpose_a ? "a[k,m] " : "a[m,k] ") + (transpose_b ? "b[n,k] " : "b[k,n] ");
  name += "m " + std::to_string(s.m) + " n " + std::to_string(s.n) + " k " + std::to_string(s.k);
  OpCase c = op_case(name, OpKind::matmul,
                     {{transpose_a ? Shape{s.k, s.m} : Shape{s.m, s.k}, bf16},
                      {transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n}, bf16}},
                     {{{s.m, s.n}, out}});
  c.attributes.transpose_a = transpose_a;
  c.attributes.transpose_b = transpose_b;
  const int64_t most = std::max({s.m * s.k, s.k * s.n, s.m * s.n});
  return {"matmul", name, most, [c, s] { return run_product(c, s); }};
}

// Row i of `got` must be row j of `want`, to the last bit.
void same_row(const Buffer& got, int64_t i, const Buffer& want, int64_t j, Verdict& verdict) {
  const size_t bytes = static_cast<size_t>(width * bytes_of(bf16));
  const bool same = std::memcmp(got.as<std::byte>() + i * width * 2,
                                want.as<std::byte>() + j * width * 2, bytes) == 0;
  verdict.take(same ? 0 : 1, 0);
}

constexpr int64_t large_rows = (int64_t{1} << 21) + 5, few = 64;

// Tokens of `few` rows spread over the table: the first, the last, and those around element 2^31.
Buffer spread_tokens(LargeMemory& memory) {
  const Buffer tokens = memory.empty({{few}, DType::i32});
  for (int64_t t = 0; t < few; ++t)
    tokens.as<int32_t>()[t] =
        static_cast<int32_t>(t < few / 2 ? large_rows - 1 - t : (t - few / 2) * (large_rows / few));
  return tokens;
}

Verdict run_embed_table() {
  const OpCase c =
      op_case("embed", OpKind::embed, {{{few}, DType::i32}, {{large_rows, width}, bf16}},
              {{{few, width}, bf16}});
  LargeMemory memory;
  const Buffer tokens = spread_tokens(memory), table = memory.filled(c.inputs[1]),
               x = memory.empty(c.outputs[0]);
  Verdict verdict;
  verdict.seconds = run_timed(c, {tokens, table}, {x});
  for (int64_t t = 0; t < few; ++t)
    same_row(x, t, table, tokens.as<int32_t>()[t], verdict);
  return verdict;
}

// Every token once, so a row of the table's gradient is a row of dx.
Verdict run_backward_table() {
  const OpCase c =
      op_case("embed_backward", OpKind::embed_backward, {{{few}, DType::i32}, {{few, width}, bf16}},
              {{{large_rows, width}, bf16}});
  LargeMemory memory;
  const Buffer tokens = spread_tokens(memory), dx = memory.filled(c.inputs[1]),
               table = memory.empty(c.outputs[0]), zero = memory.empty({{1, width}, bf16});
  Verdict verdict;
  verdict.seconds = run_timed(c, {tokens, dx}, {table});
  for (int64_t t = 0; t < few; ++t)
    same_row(table, tokens.as<int32_t>()[t], dx, t, verdict);
  same_row(table, large_rows - 1 - few, zero, 0, verdict);
  return verdict;
}

// Many rows of dx; the last `few` and those around element 2^31 have a token of their own.
Verdict run_backward_rows() {
  constexpr int64_t vocabulary = 4096, crossing = (int64_t{1} << 21) - few / 2;
  const OpCase c = op_case("embed_backward", OpKind::embed_backward,
                           {{{large_rows + few}, DType::i32}, {{large_rows + few, width}, bf16}},
                           {{{vocabulary, width}, bf16}});
  LargeMemory memory;
  const Buffer tokens = memory.empty(c.inputs[0]), dx = memory.filled(c.inputs[1]),
               table = memory.empty(c.outputs[0]);
  const auto own = [&](int64_t t) -> int64_t {  // rows crossing .. end are fewer than 3 few
    return t < crossing ? t % (vocabulary - 3 * few) : vocabulary - 3 * few + (t - crossing);
  };
  for (int64_t t = 0; t < large_rows + few; ++t)
    tokens.as<int32_t>()[t] = static_cast<int32_t>(own(t));
  Verdict verdict;
  verdict.seconds = run_timed(c, {tokens, dx}, {table});
  for (int64_t t = crossing; t < large_rows + few; ++t)
    same_row(table, own(t), dx, t, verdict);
  return verdict;
}

}  // namespace

std::vector<LargeCheck> product_checks() {
  std::vector<LargeCheck> checks;
  for (const bool a : {false, true})
    for (const bool b : {false, true})
      checks.push_back(product({many, 2048, 32}, a, b, bf16));  // c is large
  for (const bool a : {false, true})
    checks.push_back(product(a ? Sizes{2048, 16, many} : Sizes{many, 16, 2048}, a, false,
                             DType::f32));  // a is large
  for (const bool b : {false, true})
    checks.push_back(product({16, many, 2048}, false, b, DType::f32));  // b is large
  return checks;
}

std::vector<LargeCheck> table_checks() {
  return {{"embed", "large table", large_rows * width, run_embed_table},
          {"embed_backward", "large table", large_rows * width, run_backward_table},
          {"embed_backward", "many rows", (large_rows + few) * width, run_backward_rows}};
}

}  // namespace spillway
