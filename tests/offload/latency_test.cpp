// Latency models: XLA's constants, and seconds of a profile by name.
#include "offload/latency.h"

#include <gtest/gtest.h>

#include "tests/support/tiny_program.h"

namespace spillway {
namespace {

Program one_of_each() {
  TinyBuilder builder("program");
  const TensorId x = builder.persistent("x", 1), y = builder.local("y"),
                 slot = builder.host("s", 1);
  builder.segment("body", 1);
  builder.op(OpKind::copy_d2h, {all(x)}, {all(slot)}, "write");
  builder.op(OpKind::copy_h2d, {all(slot)}, {all(y)}, "reload");
  builder.op(OpKind::all_gather, {all(x)}, {all(y)}, "gather");
  builder.op(OpKind::attention, {all(x)}, {all(y)}, "attention");
  builder.op(OpKind::copy_d2d, {all(x)}, {all(y)}, "copy");
  builder.op(OpKind::add, {all(x), all(x)}, {all(y)}, "fusion");
  return builder.program();
}

double seven(const Program&, const Op&) { return 7; }

// mechanisms.md 3.6: host copies 5000 units of a microsecond; custom calls and what is neither a
// product nor a fusion 0.01 of 1000 and of 1; the others by the model.
TEST(LatencyModelTest, ConstantsAreXlas) {
  const Program program = one_of_each();
  const OpSeconds seconds = xla_seconds(seven);
  const double expected[] = {5e-3, 5e-3, 7, 10e-6, 10e-9, 7};
  for (size_t i = 0; i < std::size(expected); ++i)
    EXPECT_DOUBLE_EQ(seconds(program, program.segments[0].ops[i]), expected[i]) << i;
}

TEST(LatencyModelTest, AProfileSpeaksByBodyAndOp) {
  const Program program = one_of_each();
  const OpSeconds seconds =
      measured_seconds({{"body.write", 0.25}, {"other.reload", 3}, {"body.gather", 0}}, seven);
  EXPECT_EQ(seconds(program, program.segments[0].ops[0]), 0.25);
  EXPECT_EQ(seconds(program, program.segments[0].ops[1]), 7);
  EXPECT_EQ(seconds(program, program.segments[0].ops[2]), 0);
}

}  // namespace
}  // namespace spillway
