// Tokens in the order of their experts. k experts a token make flat slots t * k + j.
//   route_sort {experts[T,k] i32} -> {order[k*T] i32, position[T,k] i32, offsets[E+1] i32}
// Row r by expert is slot order[r], slots of one expert in rising order; position is the inverse;
// the rows of expert e are offsets[e] .. offsets[e + 1] - 1.
//   permute          {x[T,D], order[k*T]} -> {xp[k*T,D]}: row r of xp is the token of slot order[r]
//   permute_backward {dxp[k*T,D], position[T,k]} -> {dx[T,D]}: sum over the k copies, j in order
#include <cstring>
#include <vector>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

std::string check_rows(int64_t rows, int64_t tokens, int64_t copies) {
  if (rows == tokens * copies) return "";
  return text("has ", rows, " rows for ", tokens, " tokens, expected ", copies, " a token");
}

std::string check_sort(const Program& program, const Op& op) {
  const Signature s =
      match(program, op, "experts[T,k]:i32 -> order[R]:i32 position[T,k]:i32 offsets[E]:i32");
  if (!s.error.empty()) return s.error;
  if (s["E"] < 2) return text("offsets has ", s["E"], " elements, expected experts + 1");
  if (s["R"] > INT32_MAX) return text(s["R"], " rows do not fit 32-bit indices");
  return check_rows(s["R"], s["T"], s["k"]);
}

std::string check_permute(const Program& program, const Op& op) {
  const Signature s = match(program, op, "x[T,D]:x order[R]:i32 -> xp[R,D]:x");
  if (!s.error.empty()) return s.error;
  const std::string rows = check_rows(s["R"], s["T"], s["R"] / s["T"]);
  return rows.empty() ? require_distinct(op) : rows;
}

std::string check_backward(const Program& program, const Op& op) {
  const Signature s = match(program, op, "dxp[R,D]:x position[T,k]:i32 -> dx[T,D]:x");
  if (!s.error.empty()) return s.error;
  const std::string rows = check_rows(s["R"], s["T"], s["k"]);
  return rows.empty() ? require_distinct(op) : rows;
}

OpCost cost_sort(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

// Every row of the routed tensor is read or written once, and every token's row once.
OpCost cost_permute(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

// A counting sort; 4 bytes a slot, so not worth sharing out.
void run_sort(const OpCall& call, ThreadPool&) {
  const Buffer &experts = call.inputs[0], &offsets = call.outputs[2];
  const int64_t slots = experts.elements(), count = offsets.elements() - 1;
  const int32_t* expert = experts.as<int32_t>();
  int32_t *order = call.outputs[0].as<int32_t>(), *position = call.outputs[1].as<int32_t>(),
          *first = offsets.as<int32_t>();
  std::fill_n(first, count + 1, 0);
  for (int64_t slot = 0; slot < slots; ++slot) {
    check(expert[slot] >= 0 && expert[slot] < count, "expert ", expert[slot], " is outside the ",
          count, " experts");
    ++first[expert[slot] + 1];
  }
  for (int64_t e = 0; e < count; ++e)
    first[e + 1] += first[e];
  std::vector<int32_t> next(first, first + count);
  for (int64_t slot = 0; slot < slots; ++slot) {
    const int32_t row = next[static_cast<size_t>(expert[slot])]++;
    position[slot] = row;
    order[row] = static_cast<int32_t>(slot);
  }
}

void check_row(int64_t row, int64_t rows) {
  check(row >= 0 && row < rows, "row ", row, " is outside the ", rows, " routed rows");
}

void run_permute(const OpCall& call, ThreadPool& pool) {
  const Buffer &x = call.inputs[0], &xp = call.outputs[0];
  const int64_t rows = xp.shape[0], copies = rows / x.shape[0], width = x.shape[1],
                row_bytes = width * bytes_of(x.dtype);
  const int32_t* order = call.inputs[1].as<int32_t>();
  for_blocks(pool, rows, rows_per_block(width), [&](int64_t first, int64_t count) {
    for (int64_t r = first; r < first + count; ++r) {
      check_row(order[r], rows);
      std::memcpy(xp.as<std::byte>() + r * row_bytes,
                  x.as<std::byte>() + order[r] / copies * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  });
}

void run_backward(const OpCall& call, ThreadPool& pool) {
  const Buffer &dxp = call.inputs[0], &dx = call.outputs[0];
  const int64_t tokens = dx.shape[0], width = dx.shape[1], copies = call.inputs[1].shape[1];
  const int32_t* position = call.inputs[1].as<int32_t>();
  for_blocks(pool, tokens, rows_per_block(width * copies), [&](int64_t first, int64_t count) {
    simd([&](auto) SPILLWAY_SIMD {
      float *row = row_scratch(0, width), *sum = row_scratch(1, width);
      for (int64_t t = first; t < first + count; ++t) {
        std::fill_n(sum, width, 0.f);
        for (int64_t j = 0; j < copies; ++j) {
          check_row(position[t * copies + j], dxp.shape[0]);
          load(dxp, position[t * copies + j] * width, width, row);
          for (int64_t d = 0; d < width; ++d)
            sum[d] += row[d];
        }
        store(dx, t * width, width, sum);
      }
    });
  });
}

}  // namespace

const OpInfo route_sort_info = {OpKind::route_sort,
                                "route_sort",
                                Lane::compute,
                                "slots of tokens in the order of their experts",
                                check_sort,
                                cost_sort,
                                run_sort};
const OpInfo permute_info = {
    OpKind::permute, "permute",    Lane::compute, "rows of tokens by expert",
    check_permute,   cost_permute, run_permute};
const OpInfo permute_backward_info = {
    OpKind::permute_backward, "permute_backward", Lane::compute, "sum over the copies of a token",
    check_backward,           cost_permute,       run_backward};

}  // namespace spillway
