// Each op family once on a tensor of more than 2^31 elements: rows at the start, around element
// 2^31 and at the end are compared with the reference. Needs 20 GiB of memory and some minutes, so
// it is a program of its own and no test.
//   spillway_large_ops [FAMILY]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>

#include "tests/bench/large_case.h"

namespace spillway {
namespace {

constexpr DType bf16 = DType::bf16;
constexpr double ulp = 1.0 / 128;      // of bf16, at most, relative
constexpr double summed = 1.0 / 1024;  // a sum of many rows in fp32

// Rows of 1,024; attention's are sequences of 16, so that its products stay small.
constexpr int64_t width = 1024, seq = 16, rows = (int64_t{1} << 21) + 8 * seq;

Attributes attributes() {
  Attributes a;
  a.batch = rows / seq;
  a.seq = seq;
  a.heads = 16;
  a.kv_heads = 1;
  a.head_dim = 64;
  a.epsilon = 1e-5;
  a.learning_rate = 1e-3;
  a.beta1 = 0.9;
  a.beta2 = 0.95;
  a.adam_epsilon = 1e-8;
  a.weight_decay = 0.1;
  return a;
}

RowOp row_op(OpKind kind, std::vector<Item> inputs, std::vector<Item> outputs, double allowed) {
  RowOp op{op_case(info(kind).name, kind, std::move(inputs), std::move(outputs)),
           {},
           2 * seq,
           allowed,
           nullptr};
  op.c.attributes = attributes();
  return op;
}

const Item row{{rows, width}, bf16}, narrow{{rows, 64}, bf16}, lse{{rows, 16}, DType::f32},
    weights{{width}, bf16}, single{{rows, width}, DType::f32},
    positive{{rows, width}, bf16, Item::Fill::positive};

// dw = sum over rows of dy x / rms(x), where x and dy are the pattern: as many different rows as
// the pattern has places.
void compare_dw(const std::vector<Buffer>& out, Verdict& verdict) {
  std::vector<double> count(static_cast<size_t>(pattern_period)), dw(static_cast<size_t>(width));
  for (int64_t t = 0; t < rows; ++t)
    ++count[static_cast<size_t>(t * width % pattern_period)];
  std::vector<double> x(static_cast<size_t>(pattern_period + width));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = pattern(static_cast<int64_t>(i));
  for (size_t o = 0; o < count.size(); ++o) {
    double squares = 0;
    for (size_t d = 0; d < dw.size(); ++d)
      squares += x[o + d] * x[o + d];
    const double inverse = count[o] / std::sqrt(squares / static_cast<double>(width) + 1e-5);
    for (size_t d = 0; d < dw.size(); ++d)
      dw[d] += x[o + d] * x[o + d] * inverse;
  }
  const Values got = decode_range(out[1], 0, width);
  double worst = 0;
  for (size_t d = 0; d < dw.size(); ++d)
    worst = std::max(worst, std::abs(got[d] / dw[d] - 1));
  verdict.extra = "dw to " + std::to_string(worst);
  verdict.passed &= worst <= summed;
}

constexpr int64_t vocabulary = 32768, tokens = (int64_t{1} << 16) + 32;

// Mean of log(sum(exp)) minus the target's logit; the sum of a row is a difference of two sums from
// the pattern's start.
void compare_loss(const std::vector<Buffer>& out, Verdict& verdict) {
  std::vector<double> sums{0};
  for (int64_t i = 0; i < pattern_period + vocabulary; ++i)
    sums.push_back(sums.back() + std::exp(pattern(i)));
  double loss = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t first = t * vocabulary % pattern_period;
    loss +=
        std::log(sums[static_cast<size_t>(first + vocabulary)] - sums[static_cast<size_t>(first)]) -
        pattern(first + token_pattern(t, vocabulary));
  }
  const double error =
      std::abs(decode_range(out[0], 0, 1).front() / loss * static_cast<double>(tokens) - 1);
  verdict.extra = "loss to " + std::to_string(error);
  verdict.passed &= error <= 1e-5;
}

RowOp cross_entropy() {
  RowOp op =
      row_op(OpKind::cross_entropy,
             {{{tokens, vocabulary}, bf16}, {{tokens}, DType::i32, Item::Fill::token, vocabulary}},
             {{{1}, DType::f32}, {{tokens, vocabulary}, bf16}}, ulp);
  op.c.in_place = {{0, 1}};
  op.c.attributes.seq = 0;
  op.window = 4;
  op.rest = compare_loss;
  return op;
}

// Weight, m, v and gradient of two bytes each are 16 GiB.
RowOp adamw() {
  RowOp op = row_op(OpKind::adamw, {row, row, positive, row}, {row, row, row}, ulp);
  op.c.in_place = {{0, 0}, {1, 1}, {2, 2}};
  op.c.step = 4;
  return op;
}

RowOp rms_norm_backward() {
  RowOp op = row_op(OpKind::rms_norm_backward, {row, weights, row, row},
                    {row, {{width}, DType::f32}}, ulp);
  op.same = {{0, 2}};
  op.c.in_place = {{3, 0}};
  op.rest = compare_dw;
  return op;
}

RowOp attention_backward() {
  RowOp op = row_op(OpKind::attention_backward, {row, narrow, narrow, row, lse, row},
                    {row, narrow, narrow}, ulp);
  op.same = {{0, 3}, {0, 5}, {1, 2}};
  return op;
}

RowOp sharing(RowOp op, std::vector<Shared> same) {
  op.same = std::move(same);
  return op;
}

std::vector<RowOp> row_ops() {
  const Item ids{{rows}, DType::i32, Item::Fill::token, 1000}, table{{1000, width}, bf16};
  return {
      row_op(OpKind::embed, {ids, table}, {row}, 0),
      row_op(OpKind::rms_norm, {row, weights}, {row}, ulp),
      rms_norm_backward(),
      row_op(OpKind::rope, {row}, {row}, ulp),
      row_op(OpKind::rope_backward, {row}, {row}, ulp),
      sharing(row_op(OpKind::attention, {row, narrow, narrow}, {row, lse}, ulp), {{1, 2}}),
      attention_backward(),
      sharing(row_op(OpKind::add, {row, row}, {row}, ulp), {{0, 1}}),
      sharing(row_op(OpKind::swiglu, {row, row}, {row}, ulp), {{0, 1}}),
      sharing(row_op(OpKind::swiglu_backward, {row, row, row}, {row, row}, ulp), {{0, 1}, {0, 2}}),
      cross_entropy(),
      adamw(),
      row_op(OpKind::slice_cast, {single}, {row}, 0),
      row_op(OpKind::write_slice, {row}, {single}, 0),
      row_op(OpKind::copy_d2d, {row}, {row}, 0),
      row_op(OpKind::copy_d2h, {row}, {row}, 0),
      row_op(OpKind::copy_h2d, {row}, {row}, 0)};
}

std::vector<LargeCheck> all_checks() {
  std::vector<LargeCheck> checks;
  for (RowOp& op : row_ops()) {
    const std::string name = op.c.name;
    checks.push_back({name, "many rows", most_elements(op.c), [op] { return run_rows(op); }});
  }
  for (LargeCheck& check : table_checks())
    checks.push_back(std::move(check));
  for (LargeCheck& check : product_checks())
    checks.push_back(std::move(check));
  return checks;
}

// One line; true when it passed.
bool run_check(const LargeCheck& check) {
  std::printf("%-20s %-42s %11lld elements ", check.family.c_str(), check.name.c_str(),
              static_cast<long long>(check.elements));
  std::fflush(stdout);
  const Verdict v = check.run();
  std::printf("%7.2f s  worst error %.2e of %.2e  %s%s%s\n", v.seconds, v.worst, v.allowed,
              v.extra.c_str(), v.extra.empty() ? "" : "  ", v.passed ? "pass" : "FAIL");
  std::fflush(stdout);
  return v.passed;
}

int run_family(const std::string& family) {
  int ran = 0, failed = 0;
  std::string known;
  for (const LargeCheck& check : all_checks()) {
    if (known.find(check.family + " ") == std::string::npos) known += check.family + " ";
    if (!family.empty() && family != check.family) continue;
    ++ran;
    failed += !run_check(check);
  }
  if (ran == 0)
    std::fprintf(stderr, "family: found '%s', expected one of %s\n", family.c_str(), known.c_str());
  return ran == 0 ? 2 : failed > 0;
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  try {
    return spillway::run_family(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
