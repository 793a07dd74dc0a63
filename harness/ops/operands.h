// What all ops ask of their operands: shapes and dtypes by a signature, bytes, dispatch over row
// blocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/ops.h"
#include "harness/ops/signature.h"
#include "harness/thread_pool.h"

namespace spillway {

// Shape an op sees: of one slice, or with the slices in front where a stacked tensor is whole.
Shape shape_of(const Program& program, const Operand& operand);
// Bytes an op touches through this operand.
int64_t bytes_of(const Program& program, const Operand& operand);

// Checks operands against a signature and collects dimensions by name:
//   "tokens[T]:i32 table[V,D]:x (more[V,D]:x) -> x[T,D]:x"
// A dimension is a name (equal wherever it stands), `*` stands for any number of dimensions (all
// `[*]` of one signature are equal), parentheses make trailing operands optional. A dtype is f32,
// bf16, i32, `float` (f32 or bf16), `narrow` (a quantised format), `any`, or one letter: f32 or
// bf16, equal wherever that letter stands; q stands for operands of products, which may be narrow
// too, then of one family (e4m3 with e5m2, nvfp4 with nvfp4_rows).
struct Signature {
  std::string error;  // empty when the operands fit
  SignaturePattern pattern;
  std::array<int64_t, SignaturePattern::most_names> sizes{};  // by number of a name; 0: not met

  // Of a dimension that an operand has.
  int64_t operator[](std::string_view name) const;
};
Signature match(const Program& program, const Op& op, const SignaturePattern& pattern);

// "attribute head_dim is 0, expected at least 1" for the first that is below one; empty otherwise.
struct NamedSize {
  const char* name;
  int64_t value;
};
std::string require_positive(std::initializer_list<NamedSize> attributes);

// Says which output is also an input where an op cannot work in place; empty otherwise. Slices of
// one tensor that differ are not the same memory.
std::string require_distinct(const Op& op);

// Device bytes read and written: every operand once.
double touched_bytes(const Program& program, const Op& op);

// Calls task(first, count) over blocks of [0, rows); blocks depend on `rows` and `block` only.
template <class Task>
void for_blocks(ThreadPool& pool, int64_t rows, int64_t block, const Task& task) {
  pool.run((rows + block - 1) / block, [&](int64_t tile, int) {
    const int64_t first = tile * block;
    task(first, std::min(block, rows - first));
  });
}

// Rows of `width` values a thread takes at a time: about 32 K values.
inline int64_t rows_per_block(int64_t width) { return std::max<int64_t>(1, 32768 / width); }

// Floats a loop over blocks keeps on the stack per operand: several of them stay in the first cache
// level.
inline constexpr int64_t chunk = 1024;

// A row of fp32 scratch per thread, kept between calls. `slot` tells the buffers of one kernel
// apart.
float* row_scratch(int slot, int64_t floats);

}  // namespace spillway
