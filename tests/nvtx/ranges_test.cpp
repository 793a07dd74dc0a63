// Names of ranges, and that ranges open and close whether or not NVTX is compiled in.
#include "nvtx/ranges.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(NvtxRanges, NamesAreFormedFromSegmentAndOp) {
  EXPECT_EQ(range_name(RangeCategory::step), "step");
  EXPECT_EQ(range_name(RangeCategory::segment, "forward"), "forward");
  EXPECT_EQ(range_name(RangeCategory::op, "forward", "q_proj"), "forward/q_proj");
  EXPECT_EQ(range_name(RangeCategory::copy, "forward", "offload"), "copy forward/offload");
}

TEST(NvtxRanges, NestAndCarryTheirCategory) {
  const RegisteredRange step = register_range(RangeCategory::step, "step");
  const RegisteredRange op = register_range(RangeCategory::op, "a/b");
  EXPECT_EQ(step.category, RangeCategory::step);
  EXPECT_EQ(op.category, RangeCategory::op);
  const NvtxRange outer(step, 1);
  const NvtxRange inner(op, 2);
}

}  // namespace
}  // namespace spillway
