// Sizes and byte ranges of tensors and operands.
#include "harness/program.h"

#include <gtest/gtest.h>

#include "tests/support/tiny_program.h"

namespace spillway {
namespace {

TEST(Program, CountsBytesPastThirtyTwoBits) {
  Tensor tensor;
  tensor.shape = {16384, 65536};  // 2^30 elements
  tensor.dtype = DType::bf16;
  tensor.slices = 126;
  EXPECT_EQ(tensor.slice_elements(), int64_t{1} << 30);
  EXPECT_EQ(tensor.slice_bytes(), int64_t{1} << 31);
  EXPECT_EQ(tensor.bytes(), 126 * (int64_t{1} << 31));
  EXPECT_EQ(elements_of({}), 1);  // a scalar
}

TEST(Program, RangeOfASliceFollowsTheIteration) {
  TinyBuilder builder("ranges");
  const TensorId stack = builder.carried("stack", 7);  // slices of 64 bytes
  const Program& program = builder.program();
  const auto begin = [&](Index index, int64_t i) {
    return range_of(program, {stack, index}, i).begin;
  };
  EXPECT_EQ(begin(Index::at(1, 0), 3), 3 * 64);
  EXPECT_EQ(begin(Index::at(-1, 6), 2), 4 * 64);
  EXPECT_EQ(begin(Index::at(0, 5), 4), 5 * 64);
  EXPECT_EQ(range_of(program, slice(stack, 1, 0), 3).size, 64);
  EXPECT_EQ(range_of(program, all(stack), 3).begin, 0);
  EXPECT_EQ(range_of(program, all(stack), 3).size, 7 * 64);
  EXPECT_THROW(range_of(program, slice(stack, 1, 0), 7), std::logic_error);
  EXPECT_THROW(range_of(program, slice(stack, -1, 6), 7), std::logic_error);
}

TEST(Program, RingSlotsAreTakenModuloAlsoBelowZero) {
  TinyBuilder builder("ring");
  const TensorId ring = builder.ring("ring", 3);
  const auto slot = [&](Index index, int64_t i) {
    return range_of(builder.program(), {ring, index}, i).begin / 64;
  };
  EXPECT_EQ(slot(Index::at(1, 0), 7), 1);
  EXPECT_EQ(slot(Index::at(1, -1), 0), 2);
  EXPECT_EQ(slot(Index::at(-1, 1), 5), 2);  // -4 = -2 * 3 + 2
}

TEST(Program, NamesAreThoseOfTheReports) {
  EXPECT_STREQ(name_of(Role::parameter), "parameters");
  EXPECT_STREQ(name_of(Role::gathered_weight), "gathered_weights");
  EXPECT_STREQ(name_of(Role::workspace), "workspace");
  EXPECT_STREQ(name_of(Precision::nvfp4), "nvfp4");
  EXPECT_STREQ(name_of(DType::bf16), "bf16");
}

TEST(Program, DumpShowsEveryTensorAndOp) {
  const Program program = rotated_stack(5);
  const std::string listing = dump(program);
  for (const Tensor& tensor : program.tensors) {
    EXPECT_NE(listing.find(" " + tensor.name + " "), std::string::npos) << tensor.name;
  }
  EXPECT_NE(listing.find("segment forward x4\n  to.q.host: q.host[i] = copy_d2h(q[i])\n"),
            std::string::npos)
      << listing;
  EXPECT_NE(listing.find("q.host[-i+3]"), std::string::npos) << listing;
}

}  // namespace
}  // namespace spillway
