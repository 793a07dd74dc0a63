// Which copies the rewrite for narrow precisions makes, counted by hand.
#include "workloads/quantise.h"

#include <map>

#include <gtest/gtest.h>

#include "harness/ops.h"
#include "tests/workloads/support.h"
#include "workloads/shard.h"

namespace spillway {
namespace {

using Formats = std::map<DType, int>;

Operand matrix(Program& program, const Shape& shape) {
  Tensor tensor;
  tensor.name = "t" + std::to_string(program.tensors.size());
  tensor.shape = shape;
  tensor.dtype = DType::bf16;
  tensor.extent = Extent::persistent;
  return {program.add(tensor), Index::all()};
}

// Two products of one activation x, then the two weight gradients, which sum over the rows of x
// instead.
Program products_and_gradients(Precision precision, Pass pass = Pass::forward) {
  Program program;
  const Operand x = matrix(program, {6, 8});
  const Operand dy[] = {matrix(program, {6, 4}), matrix(program, {6, 4})};
  Segment body{"body", pass, 1, -1, {}};
  for (int i = 0; i < 4; ++i) {
    Op op;
    op.kind = OpKind::matmul;
    op.name = "product" + std::to_string(i);
    op.attributes.precision = precision;
    op.inputs = i < 2 ? std::vector{x, matrix(program, {4, 8})} : std::vector{dy[i - 2], x};
    op.outputs = {i < 2 ? matrix(program, {6, 4}) : matrix(program, {4, 8})};
    op.attributes.transpose_a = i >= 2;
    op.attributes.transpose_b = i < 2;
    body.ops.push_back(op);
  }
  program.segments.push_back(body);
  return program;
}

Formats copies(const Program& program, const Segment& segment) {
  Formats formats;
  for (const Op& op : segment.ops)
    if (op.kind == OpKind::quantise) ++formats[program.at(op.outputs[0].tensor).dtype];
  return formats;
}
Formats copies(const Program& program) { return copies(program, program.segments[0]); }

// FP8: x, two weights, two dy. NVFP4: x and dy along rows besides, x along columns for the products.
TEST(Quantise, OneCopyServesBothAxesInFp8AndEachAxisHasItsOwnInNvfp4) {
  EXPECT_EQ(copies(quantise_operands(products_and_gradients(Precision::fp8))),
            (Formats{{DType::e4m3, 5}}));
  EXPECT_EQ(copies(quantise_operands(products_and_gradients(Precision::nvfp4))),
            (Formats{{DType::nvfp4, 3}, {DType::nvfp4_rows, 3}}));
  for (const Precision precision : {Precision::bf16, Precision::fp32})
    EXPECT_EQ(copies(quantise_operands(products_and_gradients(precision))), Formats{});
}

TEST(Quantise, EveryOpIsLegalAndReadsWhatWasMadeBefore) {
  for (const Precision precision : {Precision::fp8, Precision::nvfp4}) {
    const Program program = quantise_operands(products_and_gradients(precision));
    std::set<TensorId> made;
    for (const Op& op : program.segments[0].ops) {
      EXPECT_EQ(info(op.kind).check(program, op), "") << op.name;
      for (size_t i = 0; is_product(op.kind) && i < 2; ++i)
        EXPECT_TRUE(made.contains(op.inputs[i].tensor)) << op.name;
      made.insert(op.outputs[0].tensor);
    }
  }
}

// x and the first weight are 96 and 64 bytes of bf16, dy 48: a product counts what it is the first to
// read, in NVFP4 along each axis.
TEST(Quantise, ProductsCountWhatIsQuantisedForThem) {
  const std::vector<int64_t> fp8 = {96 + 64, 64, 48, 48}, nvfp4 = {96 + 64, 64, 48 + 96, 48};
  for (const Precision precision : {Precision::fp8, Precision::nvfp4}) {
    std::vector<int64_t> bytes;
    const Program program = quantise_operands(products_and_gradients(precision));
    for (const Op& op : program.segments[0].ops)
      if (is_product(op.kind)) bytes.push_back(op.attributes.quantised_bytes);
    EXPECT_EQ(bytes, precision == Precision::fp8 ? fp8 : nvfp4);
  }
}

// Written again between two products: what the second reads is another value.
TEST(Quantise, AValueThatChangesIsQuantisedAnew) {
  Program program = products_and_gradients(Precision::fp8);
  Op doubled;
  doubled.kind = OpKind::add;
  doubled.name = "doubled";
  const Operand x = program.segments[0].ops[0].inputs[0];
  doubled.inputs = {x, x};
  doubled.outputs = {x};
  std::vector<Op>& ops = program.segments[0].ops;
  ops.insert(ops.begin() + 1, doubled);
  EXPECT_EQ(copies(quantise_operands(program)), (Formats{{DType::e4m3, 6}}));
}

// In a backward body: what it computes is a gradient, what it computes again or fetches is not.
TEST(Quantise, GradientsAreE5M2) {
  Program program = products_and_gradients(Precision::fp8, Pass::backward);
  std::vector<Op>& ops = program.segments[0].ops;
  const Operand dy = ops[2].inputs[0], again = ops[3].inputs[0];
  for (const Operand& written : {dy, again}) {
    Op op;
    op.kind = OpKind::add;
    op.name = "written" + std::to_string(written.tensor);
    op.inputs = {written, written};
    op.outputs = {written};
    op.recomputed = written == again;
    ops.insert(ops.begin(), op);
  }
  EXPECT_EQ(copies(quantise_operands(program)), (Formats{{DType::e5m2, 1}, {DType::e4m3, 4}}));
}

// A layer of Llama with MLPs in NVFP4 and projections in FP8. Forward, FP8: normed x, context, four
// weights; NVFP4: normed x, product of gate and up, three weights. Gathered weights and their copies
// are weights in the plan.
TEST(Quantise, ALlamaLayerForwardByHand) {
  WorkloadOptions options = point(1, 16, Precision::nvfp4);
  options.projection_precision = Precision::fp8;
  const Program program =
      quantise_operands(shard(build_program(load_model("llama-tiny"), options), 4));
  for (const Segment& segment : program.segments) {
    if (segment.pass != Pass::forward || segment.trips == 1) continue;
    EXPECT_EQ(copies(program, segment), (Formats{{DType::e4m3, 6}, {DType::nvfp4, 5}}));
    int weights = 0;
    for (const Op& op : segment.ops)
      if (op.kind == OpKind::quantise)
        weights += program.at(op.outputs[0].tensor).role == Role::gathered_weight;
    EXPECT_EQ(weights, 7);
  }
}

}  // namespace
}  // namespace spillway
