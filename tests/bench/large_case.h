// Ops on tensors of more than 2^31 elements: memory for them, a content that shows a wrapped index,
// and the comparison of some of their rows with the reference in double precision.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/op_case.h"

namespace spillway {

// A prime, so that indices 2^31 or 2^32 apart have different values.
inline constexpr int64_t pattern_period = 65521;
// Value of element i: an odd multiple of 1/64 between -2 and 2, exact in bf16.
double pattern(int64_t i);
int32_t token_pattern(int64_t i, int64_t vocabulary);

// Buffers of one op; gone, with their pages, when this is.
class LargeMemory {
 public:
  LargeMemory() = default;
  ~LargeMemory();
  LargeMemory(const LargeMemory&) = delete;
  LargeMemory& operator=(const LargeMemory&) = delete;

  Buffer empty(const Item& item);   // zeros, no pages yet
  Buffer filled(const Item& item);  // pattern(i), |pattern(i)| or token_pattern(i)

 private:
  struct Mapping {
    void* data;
    size_t bytes;
  };
  std::vector<Mapping> mappings_;
};

Values decode_range(const Buffer& buffer, int64_t first, int64_t count);

struct Verdict {
  double seconds = 0;  // of the kernel
  double worst = 0;    // error relative to the value, or to 1/16 of the largest one beside it
  double allowed = 0;
  std::string extra;  // what else was compared, or found wrong
  bool passed = true;

  void take(double error, double most);
};

// Runs the kernel, after asking the op's own check whether it is legal.
double run_timed(const OpCase& c, const std::vector<Buffer>& in, const std::vector<Buffer>& out);

// An op whose operands are either rows, as many as the first input has, or small.
struct RowOp {
  OpCase c;
  std::vector<Shared> same;  // input `to` has the buffer of input `from`
  int64_t window = 4;        // rows compared at the start, around element 2^31, at the end
  double allowed = 0;        // 0: to the last bit
  // Compares the small outputs.
  std::function<void(const std::vector<Buffer>& out, Verdict& verdict)> rest;
};
Verdict run_rows(const RowOp& op);
int64_t most_elements(const OpCase& c);  // of one operand

// Checks of tests/bench/large_products.cpp: one of them is one line of output.
struct LargeCheck {
  std::string family, name;
  int64_t elements;  // of the largest operand
  std::function<Verdict()> run;
};
std::vector<LargeCheck> product_checks();  // matmul
std::vector<LargeCheck> table_checks();    // embed and embed_backward

}  // namespace spillway
