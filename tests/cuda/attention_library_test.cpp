// Attention between cuDNN and our own kernels: who runs what, and the order of the log-sum-exp.
#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cuda/cudnn.h"
#include "harness/cuda/ops/attention_stats.cuh"
#include "tests/support/fibres.h"

namespace spillway {
namespace {

Op attention_op(bool backward) {
  Op op;
  op.kind = backward ? OpKind::attention_backward : OpKind::attention;
  op.attributes.batch = 2;
  op.attributes.seq = 4096;
  op.attributes.heads = 128;
  op.attributes.kv_heads = 8;
  op.attributes.head_dim = 64;
  return op;
}

TEST(AttentionLibrary, HasASayInBf16Only) {
  Op op = attention_op(true);
  const auto shape = library_attention(op, DType::bf16);
  ASSERT_TRUE(shape);
  const AttentionShape4d want{2, 4096, 128, 8, 64, 64, 0.125F, true};
  EXPECT_EQ(*shape, want);
  EXPECT_EQ(shape->stats_bytes(), 4 << 20);  // 2 * 128 * 4096 floats
  EXPECT_FALSE(library_attention(op, DType::f32));
  op.attributes.plain = true;
  EXPECT_FALSE(library_attention(op, DType::bf16));
  op = attention_op(false);
  op.attributes.scale = 0.25;
  op.attributes.value_dim = 32;
  EXPECT_EQ(library_attention(op, DType::bf16)->scale, 0.25F);
  EXPECT_EQ(library_attention(op, DType::bf16)->value_dim, 32);
  op.kind = OpKind::add;
  EXPECT_FALSE(library_attention(op, DType::bf16));
}

TEST(AttentionLibrary, IsNamedByItsVersion) {
  EXPECT_EQ(cudnn_version_text(91900), "9.19.0");
  EXPECT_EQ(cudnn_version_text(92103), "9.21.3");
}

Program program_with_attention(DType dtype) {
  Program program;
  Tensor q;
  q.dtype = dtype;
  Op op = attention_op(false);
  op.inputs = {{program.add(q), {}}};
  program.segments.emplace_back().ops = {op};
  return program;
}

TEST(AttentionLibrary, PlainKernelsAreNamed) {
  EXPECT_EQ(attention_kernels({}), "");
  EXPECT_EQ(attention_kernels(program_with_attention(DType::f32)), "plain");
  Program program = program_with_attention(DType::bf16);
  choose_plain_attention(program);
  EXPECT_EQ(attention_kernels(program), "plain");
}

// Where the library is absent, or was when this was built, every shape runs by our kernels and the
// reason is named.
TEST(AttentionLibrary, AbsentIsNamed) {
  if (cudnn_state().problem.empty()) GTEST_SKIP() << "cuDNN is here";
  EXPECT_EQ(attention_kernels(program_with_attention(DType::bf16)),
            "plain (" + cudnn_state().problem + ")");
}

// Of the models in question, by cuDNN's own front end: its support surface needs no device.
TEST(AttentionLibrary, TakesTheShapesOfBothModels) {
  if (!cudnn_state().problem.empty()) GTEST_SKIP() << cudnn_state().problem;
  for (const bool backward : {false, true}) {
    const AttentionShape4d llama{2, 8192, 128, 8, 128, 128, 0.0883883F, backward},
        deepseek{2, 4096, 128, 128, 192, 128, 0.1352F, backward};
    for (const int capability : {90, 100, 103}) {
      EXPECT_EQ(cudnn_objection(llama, capability), "") << capability << (backward ? " back" : "");
      EXPECT_EQ(cudnn_objection(deepseek, capability), "") << capability;
    }
    EXPECT_EQ(cudnn_objection(llama, 80), "");
  }
  const AttentionShape4d wide{1, 64, 1, 1, 264, 264, 1, true};
  EXPECT_NE(cudnn_objection(wide, 90), "");
}

// Element (b, r, c) is 1000 b + 10 r + c, off the tile's size on both sides.
TEST(AttentionLibrary, StatsChangeOrderAndComeBack) {
  constexpr int64_t batch = 2, rows = 70, columns = 5;
  std::vector<float> from(batch * rows * columns), to(from.size(), -1.F), back(from.size(), -1.F);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        from[static_cast<size_t>((b * rows + r) * columns + c)] =
            static_cast<float>(1000 * b + 10 * r + c);
  Fibres fibres;
  const auto run = [&](const TransposeStats& body, ThreadOrder order) {
    for (int64_t tile = 0; tile < body.tiles(); ++tile)
      fibres.run(TransposeStats::threads, TransposeStats::scratch_bytes(), order,
                 [&](const FibreGroup& group) { body(group, tile); });
  };
  for (const ThreadOrder order : {ThreadOrder::rising, ThreadOrder::falling}) {
    run({batch, rows, columns, from.data(), to.data()}, order);
    EXPECT_EQ(to[0], 0.F);
    EXPECT_EQ(to[69], 690.F);                              // b 0, c 0, r 69
    EXPECT_EQ(to[(1 * columns + 3) * rows + 41], 1413.F);  // b 1, c 3, r 41
    run({batch, columns, rows, to.data(), back.data()}, order);
    EXPECT_EQ(back, from);
  }
}

}  // namespace
}  // namespace spillway
