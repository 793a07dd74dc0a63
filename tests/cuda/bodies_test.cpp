// Every CUDA kernel of ours against the definition of its op, over the shared op-test table: all of
// it but the launch, its threads as fibres. Nothing here needs a GPU.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cuda/kernel.h"
#include "harness/cuda/ops/call.cuh"
#include "harness/error.h"
#include "tests/support/cuda_bodies.h"
#include "tests/support/expect_close.h"
#include "tests/support/op_cases.h"

namespace spillway {
namespace {

bool is_copy(OpKind kind) {
  return kind == OpKind::copy_d2h || kind == OpKind::copy_h2d || kind == OpKind::copy_d2d;
}

// Copies are the copy engine's, collectives a library's.
std::vector<OpCase> body_cases() {
  std::vector<OpCase> cases = op_cases();
  std::erase_if(cases, [](const OpCase& c) { return is_copy(c.kind); });
  return cases;
}

class CudaBodies : public testing::TestWithParam<OpCase> {};

// The same bits for any order and address: one element off, no access is of 16 bytes.
TEST_P(CudaBodies, ComputeWhatTheyMeanInAnyOrderAtAnyAddress) {
  OpCase c = GetParam();
  const auto inputs = random_inputs(c, 1);
  const auto want = reference(c, inputs);
  const auto bits = run_cuda_body(c, inputs, ThreadOrder::rising);
  for (size_t i = 0; i < want.size(); ++i) {
    expect_close(decode(bits[i], c.outputs[i]), want[i], c.outputs[i].dtype, text("output ", i));
  }
  EXPECT_EQ(bits, run_cuda_body(c, inputs, ThreadOrder::falling)) << "threads and tiles reversed";
  EXPECT_EQ(bits, run_cuda_body(c, inputs, ThreadOrder::rising, 1)) << "addresses one element off";
  if (c.in_place.empty()) return;
  c.in_place.clear();
  EXPECT_EQ(bits, run_cuda_body(c, inputs, ThreadOrder::rising)) << "not in place";
}

INSTANTIATE_TEST_SUITE_P(Table, CudaBodies, testing::ValuesIn(body_cases()),
                         [](const auto& test) { return test.param.name; });

TEST(CudaKernels, AreThereForEveryOpButCopiesAndCollectives) {
  std::vector<std::string> missing, without_case;
  std::set<OpKind> tested;
  for (const OpCase& c : op_cases())
    tested.insert(c.kind);
  for (int i = 0; i < op_kind_count; ++i) {
    const auto kind = static_cast<OpKind>(i);
    if (info(kind).lane == Lane::collective || is_copy(kind)) continue;
    const bool listed = !SPILLWAY_HAVE_CUDA || cuda_kernel(kind) != nullptr;
    if (!has_cuda_body(kind) || !listed) missing.emplace_back(info(kind).name);
    if (!tested.contains(kind)) without_case.emplace_back(info(kind).name);
  }
  EXPECT_THAT(missing, testing::IsEmpty());
  EXPECT_THAT(without_case, testing::IsEmpty());
}

// Codes, scales and what pads them lie as every executor has them, and round as they do.
TEST(CudaKernels, QuantiseToTheVeryBytesOfTheCpu) {
  int cases = 0;
  for (const OpCase& c : op_cases()) {
    if (c.kind != OpKind::quantise) continue;
    ++cases;
    auto inputs = random_inputs(c, 7);
    EXPECT_EQ(run_cuda_body(c, inputs, ThreadOrder::rising), run_kernel(c, inputs, 1)) << c.name;
    inputs[0].assign(inputs[0].size(), 0);
    EXPECT_EQ(run_cuda_body(c, inputs, ThreadOrder::rising), run_kernel(c, inputs, 1)) << c.name;
  }
  EXPECT_GT(cases, 30);
}

// A NaN at either end of any input of floats reaches an output.
TEST(CudaKernels, PassNaNOn) {
  for (const OpCase& c : body_cases()) {
    const bool small = std::all_of(c.inputs.begin(), c.inputs.end(), [](const Item& item) {
      return elements_of(item.shape) <= 6000;
    });
    if (!small) continue;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      if (c.inputs[i].dtype == DType::i32 || is_narrow(c.inputs[i].dtype)) continue;
      auto inputs = random_inputs(c, 4);
      if (c.kind == OpKind::embed) inputs[0].assign(inputs[0].size(), 0);  // the first row is read
      inputs[i].front() = inputs[i].back() = std::nan("");
      const auto bits = run_cuda_body(c, inputs, ThreadOrder::rising);
      bool found = false;
      for (size_t o = 0; o < bits.size(); ++o) {
        const Values values = decode(bits[o], c.outputs[o]);
        found = found ||
                std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
      }
      EXPECT_TRUE(found) << c.name << " input " << i;
    }
  }
}

// What the host knows beforehand of a choice without scores holds on every executor.
TEST(CudaKernels, DrawTheVeryExpertsThatTheCpuDraws) {
  OpCase c = op_case("router", OpKind::router, {{{700, 24}, DType::f32}},
                     {{{700, 5}, DType::i32}, {{700, 5}, DType::f32}});
  Routing& routing = c.attributes.routing;
  routing.experts = 24;
  routing.top_k = 5;
  routing.choice = Routing::Choice::zipf;
  routing.zipf = 1.1;
  routing.seed = 3;
  const auto inputs = random_inputs(c, 6);
  const auto got = run_cuda_body(c, inputs, ThreadOrder::rising), want = run_kernel(c, inputs, 2);
  EXPECT_EQ(got[0], want[0]);
  expect_close(decode(got[1], DType::f32), decode(want[1], DType::f32), DType::f32, "weights");
}

// A row of 16,392 elements is 2,049 packs; 2^19 of them are 2^33 + 2^22 elements.
TEST(CudaKernels, CountElementsBeyond32Bits) {
  const RowPacks packs(int64_t{1} << 20, 16392);
  const int64_t row = int64_t{1} << 19;
  const RowPacks::Unit last = packs.unit(row * 2049 + 2048);
  EXPECT_TRUE(last.inside);
  EXPECT_EQ(last.row, row);
  EXPECT_EQ(last.column, 16384);
  EXPECT_EQ(last.count, 8);
  EXPECT_EQ(last.first, (int64_t{1} << 33) + (int64_t{1} << 22) + 16384);
  EXPECT_FALSE(packs.unit(int64_t{2049} << 20).inside);
  EXPECT_EQ(packs.tiles(256), (int64_t{2049} << 20) / 256);
  const int64_t large = int64_t{5} << 40;  // by the 64-bit division
  EXPECT_EQ(RowPacks::quotient(large + 6, 7), large / 7 + (large % 7 + 6) / 7);
}

// ---- the fibres themselves

TEST(Fibres, SumAndWaitForEachOther) {
  Fibres fibres;
  for (const ThreadOrder order : {ThreadOrder::rising, ThreadOrder::falling}) {
    std::vector<int> seen;
    fibres.run(8, 8 * 4, order, [&](const FibreGroup& group) {
      auto* shared = reinterpret_cast<int*>(group.scratch());
      shared[group.rank()] = group.rank();
      group.sync();
      int sum = 0;
      for (int i = 0; i < group.size(); ++i)
        sum += shared[i];
      seen.push_back(sum);
      EXPECT_EQ(group.sum(static_cast<float>(group.rank())), 28.f);
      EXPECT_EQ(group.max(static_cast<float>(-group.rank())), 0.f);
      EXPECT_EQ(group.largest(group.rank() % 3 == 2 ? 1.f : 0.f, group.rank()), 2);
    });
    EXPECT_THAT(seen, testing::ElementsAre(28, 28, 28, 28, 28, 28, 28, 28));
  }
}

TEST(Fibres, ShowAMissingWaitAsADifferenceBetweenOrders) {
  Fibres fibres;
  const auto first_reads = [&](ThreadOrder order) {
    int read = 0;
    fibres.run(2, 4, order, [&](const FibreGroup& group) {
      auto* shared = reinterpret_cast<int*>(group.scratch());
      if (group.rank() == 1) *shared = 7;
      if (group.rank() == 0) read = *shared;
    });
    return read;
  };
  EXPECT_EQ(first_reads(ThreadOrder::rising), -1);
  EXPECT_EQ(first_reads(ThreadOrder::falling), 7);
}

TEST(Fibres, RefuseThreadsThatDoNotMeet) {
  Fibres fibres;
  EXPECT_THROW(fibres.run(4, 0, ThreadOrder::rising,
                          [](const FibreGroup& group) {
                            if (group.rank() != 2) group.sync();
                          }),
               std::logic_error);
}

}  // namespace
}  // namespace spillway
