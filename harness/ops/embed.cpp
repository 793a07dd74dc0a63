// embed:          {tokens[T] i32, table[V,D]} -> {x[T,D]}: row t of x is row tokens[t] of the
// table. embed_backward: {tokens[T] i32, dx[T,D], (dtable[V,D])} -> {dtable[V,D]}: row v is the sum
// of the rows of dx whose
//                 token is v, added in the order of t; onto the given dtable where there is one,
//                 else onto zero.
#include <vector>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

std::string check_embed(const Program& program, const Op& op) {
  const Signature s = match(program, op, "tokens[T]:i32 table[V,D]:float -> x[T,D]:float");
  return s.error.empty() ? require_distinct(op) : s.error;
}

std::string check_backward(const Program& program, const Op& op) {
  return match(program, op, "tokens[T]:i32 dx[T,D]:float (dtable[V,D]:g) -> dtable[V,D]:g").error;
}

double bytes_at(const Program& program, const Operand& operand) {
  return static_cast<double>(bytes_of(program, operand));
}

// T rows of the table are read, not all of it.
OpCost cost_embed(const Program& program, const Op& op) {
  const double row_elements = static_cast<double>(elements_of(shape_of(program, op.outputs[0])));
  const double rows =
      row_elements * static_cast<double>(bytes_of(program.at(op.inputs[1].tensor).dtype));
  return {.bytes = bytes_at(program, op.inputs[0]) + rows + bytes_at(program, op.outputs[0])};
}

// Accumulating touches T rows of the table twice; otherwise the table is written once.
OpCost cost_backward(const Program& program, const Op& op) {
  const double row_elements = static_cast<double>(elements_of(shape_of(program, op.inputs[1])));
  const double rows =
      row_elements * static_cast<double>(bytes_of(program.at(op.outputs[0].tensor).dtype));
  const double table = op.inputs.size() > 2 ? 2 * rows : bytes_at(program, op.outputs[0]);
  return {.bytes = bytes_at(program, op.inputs[0]) + bytes_at(program, op.inputs[1]) + table};
}

void check_token(int64_t token, int64_t vocabulary) {
  check(token >= 0 && token < vocabulary, "token ", token, " is outside the vocabulary of ",
        vocabulary);
}

void run_embed(const OpCall& call, ThreadPool& pool) {
  const int64_t vocabulary = call.inputs[1].shape[0], width = call.inputs[1].shape[1];
  const int32_t* tokens = call.inputs[0].as<int32_t>();
  for_blocks(pool, call.inputs[0].elements(), rows_per_block(width),
             [&](int64_t first, int64_t count) {
               simd([&](auto) SPILLWAY_SIMD {
                 float* row = row_scratch(0, width);
                 for (int64_t t = first; t < first + count; ++t) {
                   check_token(tokens[t], vocabulary);
                   load(call.inputs[1], tokens[t] * width, width, row);
                   store(call.outputs[0], t * width, width, row);
                 }
               });
             });
}

// Rows of dx for each vocabulary entry: positions[start[v]] .. positions[start[v + 1]], rising.
struct ByToken {
  std::vector<int64_t> start, positions;
};

ByToken group_by_token(const int32_t* tokens, int64_t count, int64_t vocabulary) {
  ByToken groups{std::vector<int64_t>(static_cast<size_t>(vocabulary) + 1),
                 std::vector<int64_t>(static_cast<size_t>(count))};
  for (int64_t t = 0; t < count; ++t) {
    check_token(tokens[t], vocabulary);
    ++groups.start[static_cast<size_t>(tokens[t]) + 1];
  }
  for (size_t v = 1; v < groups.start.size(); ++v)
    groups.start[v] += groups.start[v - 1];
  std::vector<int64_t> next(groups.start.begin(), groups.start.end() - 1);
  for (int64_t t = 0; t < count; ++t) {
    groups.positions[static_cast<size_t>(next[static_cast<size_t>(tokens[t])]++)] = t;
  }
  return groups;
}

void run_backward(const OpCall& call, ThreadPool& pool) {
  const Buffer &dx = call.inputs[1], &dtable = call.outputs[0];
  const int64_t vocabulary = dtable.shape[0], width = dtable.shape[1];
  const bool accumulate = call.inputs.size() > 2;
  const ByToken groups =
      group_by_token(call.inputs[0].as<int32_t>(), call.inputs[0].elements(), vocabulary);
  for_blocks(pool, vocabulary, rows_per_block(width), [&](int64_t first, int64_t count) {
    simd([&](auto) SPILLWAY_SIMD {
      float *sum = row_scratch(0, width), *row = row_scratch(1, width);
      for (int64_t v = first; v < first + count; ++v) {
        const int64_t begin = groups.start[static_cast<size_t>(v)],
                      end = groups.start[static_cast<size_t>(v) + 1];
        if (accumulate && begin == end && call.inputs[2].data == dtable.data)
          continue;  // in place, nothing to add
        std::fill_n(sum, width, 0.f);
        if (accumulate) load(call.inputs[2], v * width, width, sum);
        for (int64_t i = begin; i < end; ++i) {
          load(dx, groups.positions[static_cast<size_t>(i)] * width, width, row);
          for (int64_t d = 0; d < width; ++d)
            sum[d] += row[d];
        }
        store(dtable, v * width, width, sum);
      }
    });
  });
}

}  // namespace

const OpInfo embed_info = {OpKind::embed, "embed",    Lane::compute, "rows of a table by token",
                           check_embed,   cost_embed, run_embed};
const OpInfo embed_backward_info = {OpKind::embed_backward,
                                    "embed_backward",
                                    Lane::compute,
                                    "gradient of the table: sums of rows by token",
                                    check_backward,
                                    cost_backward,
                                    run_backward};

}  // namespace spillway
