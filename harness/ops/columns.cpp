// columns:        {x[T,W]} -> {y[T,N]}: columns first_column .. first_column + N - 1 of x.
// concat_columns: {a[T,A], b[T,B]} -> {y[T,A+B]}: each row of a, then that of b.
// Attributes: first_column (columns).
#include <cstring>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

std::string check_columns(const Program& program, const Op& op) {
  const Signature s = match(program, op, "x[T,W]:x -> y[T,N]:x");
  if (!s.error.empty()) return s.error;
  const int64_t first = op.attributes.first_column;
  if (first < 0 || first + s["N"] > s["W"]) {
    return text("takes columns ", first, " to ", first + s["N"], ", expected them within 0 to ",
                s["W"]);
  }
  return require_distinct(op);
}

std::string check_concat(const Program& program, const Op& op) {
  const Signature s = match(program, op, "a[T,A]:x b[T,B]:x -> y[T,N]:x");
  if (!s.error.empty()) return s.error;
  if (s["N"] != s["A"] + s["B"])
    return text("y has ", s["N"], " columns, expected ", s["A"] + s["B"]);
  return require_distinct(op);
}

// What is written is read once; the other columns of x are not touched.
OpCost cost_columns(const Program& program, const Op& op) {
  return {.bytes = 2 * static_cast<double>(bytes_of(program, op.outputs[0]))};
}

// Copies `count` columns of every row; the first column on either side.
void copy_columns(const Buffer& from, int64_t from_column, const Buffer& to, int64_t to_column,
                  int64_t count, ThreadPool& pool) {
  const int64_t size = bytes_of(from.dtype), from_width = from.shape[1], to_width = to.shape[1];
  for_blocks(pool, from.shape[0], rows_per_block(count), [&](int64_t first, int64_t rows) {
    for (int64_t t = first; t < first + rows; ++t) {
      std::memcpy(to.as<std::byte>() + (t * to_width + to_column) * size,
                  from.as<std::byte>() + (t * from_width + from_column) * size,
                  static_cast<size_t>(count * size));
    }
  });
}

void run_columns(const OpCall& call, ThreadPool& pool) {
  const Buffer& y = call.outputs[0];
  copy_columns(call.inputs[0], call.op->attributes.first_column, y, 0, y.shape[1], pool);
}

void run_concat(const OpCall& call, ThreadPool& pool) {
  const Buffer &a = call.inputs[0], &b = call.inputs[1];
  copy_columns(a, 0, call.outputs[0], 0, a.shape[1], pool);
  copy_columns(b, 0, call.outputs[0], a.shape[1], b.shape[1], pool);
}

}  // namespace

const OpInfo columns_info = {
    OpKind::columns, "columns",    Lane::compute, "some columns of every row",
    check_columns,   cost_columns, run_columns};
const OpInfo concat_columns_info = {
    OpKind::concat_columns, "concat_columns", Lane::compute, "two tensors side by side",
    check_concat,           cost_columns,     run_concat};

}  // namespace spillway
