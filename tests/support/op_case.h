// One op on random values: how to run it by its kernel, and what it should give, computed apart in
// double precision by the definition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "harness/ops.h"

namespace spillway {

using Values = std::vector<double>;

struct Item {
  Shape shape;
  DType dtype = DType::f32;
  enum class Fill { normal, positive, token, given } fill = Fill::normal;
  int64_t vocabulary = 0;  // Fill::token
  Values given = {};       // Fill::given
};

// Input `from` and output `to` are one buffer.
struct Shared {
  size_t from, to;
};

struct OpCase {
  std::string name;
  OpKind kind = OpKind::add;
  Attributes attributes;
  std::vector<Item> inputs, outputs;
  std::vector<Shared> in_place;
  int64_t step = 0;  // adamw
};

inline void PrintTo(const OpCase& c, std::ostream* out) { *out << c.name; }  // for GoogleTest

// One that reads no attributes.
OpCase op_case(std::string name, OpKind kind, std::vector<Item> inputs, std::vector<Item> outputs,
               std::vector<Shared> in_place = {});

bool has_narrow(const OpCase& c);  // quantised operands or results

// The op of a case alone in a Program.
struct OneOp {
  Program program;
  Op op;
};
OneOp program_of(const OpCase& c);

// Values exact in their dtype. attention_backward gets o and lse that belong to its q, k, v.
std::vector<Values> random_inputs(const OpCase& c, uint64_t seed);

// Runs the CPU kernel; every buffer starts `offset` elements after an aligned address, outputs are
// NaN before. Returns the bits of the outputs.
std::vector<std::vector<std::byte>> run_kernel(const OpCase& c, const std::vector<Values>& inputs,
                                               int threads, int64_t offset = 0);
// The same for any kernel of this op, which `run` calls.
std::vector<std::vector<std::byte>> run_by(const OpCase& c, const std::vector<Values>& inputs,
                                           int64_t offset,
                                           const std::function<void(const OpCall&)>& run);
Values decode(const std::vector<std::byte>& bits, DType dtype);  // a plain one
Values decode(const std::vector<std::byte>& bits, const Item& item);

// The definition, in double precision (tests/support/op_reference.cpp).
std::vector<Values> reference(const OpCase& c, const std::vector<Values>& inputs);

// x rounded to a dtype, independently of the kernels' own rounding.
double rounded(double x, DType dtype);

}  // namespace spillway
