// Ops as dense products, by a library: what is asked of it means what the op means, each product has
// one algorithm, and models run on it.
#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cuda/chosen_products.h"
#include "harness/cuda/stream_executor.h"
#include "harness/error.h"
#include "harness/race.h"
#include "harness/workspaces.h"
#include "tests/cuda/support_fake_gpu.h"
#include "tests/cuda/support_products.h"
#include "tests/support/expect_close.h"
#include "tests/support/op_cases.h"
#include "tests/sweeps/support_runs.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Cases say the precision of narrow operands by their types alone.
bool is_narrow_case(const OpCase& c) { return !c.inputs.empty() && is_narrow(c.inputs[0].dtype); }

std::vector<OpCase> product_cases(bool narrow) {
  std::vector<OpCase> cases = op_cases();
  std::erase_if(cases, [&](const OpCase& c) {
    return !is_dense_product(program_of(c).op) || is_narrow_case(c) != narrow ||
           (narrow && c.kind != OpKind::matmul);
  });
  return cases;
}

using Run = std::function<void(const DenseProduct&)>;

void expect_meaning(const OpCase& c, const Run& run) {
  const auto inputs = random_inputs(c, 1);
  const auto want = reference(c, inputs);
  const auto bits = run_by(c, inputs, 0, [&](const OpCall& call) { for_each_product(call, run); });
  for (size_t i = 0; i < want.size(); ++i)
    expect_close(decode(bits[i], c.outputs[i]), want[i], c.outputs[i].dtype,
                 text(c.name, " output ", i));
}

TEST(CudaProducts, MeanWhatTheirOpsMean) {
  FakeProducts library;
  std::set<OpKind> kinds;
  for (const OpCase& c : product_cases(false)) {
    kinds.insert(c.kind);
    expect_meaning(c, [&](const DenseProduct& product) { library.run(product, {}, {}, nullptr); });
  }
  EXPECT_EQ(kinds.size(), 4u);
}

TEST(CudaProducts, HaveAddressesAsAlignedAsTheyClaim) {
  for (const OpCase& c : product_cases(false)) {
    const auto run = [&](const DenseProduct& product) {
      const auto begins = [&](const std::byte* data, const ProductMatrix& matrix) {
        EXPECT_GE(matrix.alignment, bytes_of(matrix.dtype));
        for (int64_t i = 0; i < product.shape.batch; ++i)
          EXPECT_EQ((reinterpret_cast<intptr_t>(data) + i * matrix.step * bytes_of(matrix.dtype)) %
                        matrix.alignment,
                    0)
              << c.name;
      };
      begins(product.a, product.shape.a);
      begins(product.b, product.shape.b);
      begins(product.c, product.shape.c);
    };
    run_by(c, random_inputs(c, 1), 0, [&](const OpCall& call) { for_each_product(call, run); });
  }
}

// 6 x 10 bf16 are 120 bytes; as a slice of a stack the second begins there, at 8 x 15.
TEST(CudaProducts, ClaimNoMoreThanAnySliceOfAStackHas) {
  const Buffer a{nullptr, {6, 10}, DType::bf16}, b{nullptr, {10, 8}, DType::bf16},
      c{nullptr, {6, 8}, DType::f32};
  Op op;
  op.kind = OpKind::matmul;
  const std::array inputs = {a, b};
  for_each_product({&op, inputs, std::span(&c, 1)}, [&](const DenseProduct& product) {
    EXPECT_EQ(key_of(product.shape), "6x8x10 a bf16/10@8 b bf16/8 c f32/8");
  });
}

TEST(CudaProducts, TakeTheScratchMemoryNvidiaRecommends) {
  EXPECT_EQ(product_workspace_bytes(8), 4194304);
  EXPECT_EQ(product_workspace_bytes(9), 33554432);
  EXPECT_EQ(product_workspace_bytes(12), 33554432);
}

// ---- a model on the fake GPU, its products by a library

class ProductRuns : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(file_); }
  void TearDown() override { std::filesystem::remove(file_); }

  struct Ran {
    std::vector<double> losses;
    std::string digest;
    CudaMatmuls matmuls;
    std::map<std::string, int> asked, ran;
  };

  Ran run(
      const RunVariant& variant, const CudaOptions& with = {},
      const std::function<void(FakeProducts&)>& change = [](FakeProducts&) {}) {
    auto library = std::make_unique<FakeProducts>();
    FakeProducts& products = *library;
    change(products);
    auto memory = std::make_shared<CudaMemory>(std::make_unique<FakeGpu>(any_haste),
                                               OpenedLibrary{std::move(library), ""});
    Prepared prepared = prepare(tiny_point(variant, 1, 16), {});
    prepared.schedule =
        with_workspaces(prepared.schedule, [&](const Program& program, const Op& op) {
          const int64_t own = fake_workspace_bytes(program, op);
          return is_dense_product(op) ? std::max<int64_t>(own, 4096) : own;
        });
    prepared.plan = plan_memory(prepared.schedule);
    prepared.schedule = drop_and_prove(std::move(prepared.schedule), prepared.plan).schedule;
    CudaOptions options = with;
    options.threads = 1;
    options.algorithms = file_.string();
    const auto executor =
        make_stream_executor(prepared.schedule, prepared.plan, options, memory, fake_kernel);
    Ran result;
    for (int step = 0; step < 2; ++step)
      result.losses.push_back(executor->step().loss);
    result.digest = executor->gradient_digest();
    result.matmuls = executor->matmuls();
    result.asked = products.asked;
    result.ran = products.ran;
    return result;
  }

  std::filesystem::path file_ =
      std::filesystem::path(testing::TempDir()) /
      text(testing::UnitTest::GetInstance()->current_test_info()->name(), ".json");
};

const RunVariant offloaded = {.policy = "decoder_layer_input=offload,query_proj=offload"};

TEST_F(ProductRuns, GiveTheSameBitsUnderEveryPolicyAndMode) {
  const Ran first =
      run({.policy = "full"}, {}, [](FakeProducts& library) { library.numbers = {1}; });
  EXPECT_EQ(first.matmuls.library, "fake 1.2.3");
  EXPECT_EQ(first.matmuls.file, file_.string());
  EXPECT_GT(first.matmuls.by_library, 5);
  EXPECT_EQ(first.matmuls.timed, first.matmuls.by_library);
  EXPECT_THAT(first.matmuls.plain, IsEmpty());
  for (const CudaOptions& options :
       {CudaOptions{}, CudaOptions{.poison = true}, CudaOptions{.graphs = true}}) {
    const Ran other = run(offloaded, options, [](FakeProducts& library) { library.numbers = {1}; });
    EXPECT_EQ(other.losses, first.losses);
    EXPECT_EQ(other.digest, first.digest);
  }
}

TEST_F(ProductRuns, TimeNothingThatTheFileHas) {
  const Ran first = run({.policy = "full"});
  for (const auto& [key, times] : first.asked)
    EXPECT_EQ(times, 1) << key;
  const Ran second = run({.policy = "full"});
  EXPECT_THAT(second.asked, IsEmpty());
  EXPECT_EQ(second.matmuls.timed, 0);
  EXPECT_EQ(second.matmuls.by_library, first.matmuls.by_library);
  // Of the first run: one run of each of two algorithms to load it, five rounds, two steps.
  for (const auto& [key, times] : second.ran)
    EXPECT_EQ(first.ran.at(key), times + 12) << key;
}

TEST_F(ProductRuns, NeverTimeInAStep) {
  const Ran ran = run({.policy = "full"}, {.graphs = true});
  EXPECT_EQ(ran.matmuls.timed, ran.matmuls.by_library);
  for (const auto& [key, times] : ran.asked)
    EXPECT_EQ(times, 1) << key;
}

TEST_F(ProductRuns, LeaveToOurKernelsWhatTheLibraryDoesNotCompute) {
  const Ran all = run(offloaded);
  std::filesystem::remove(file_);
  const Ran plain = run(offloaded, {}, [](FakeProducts& library) { library.numbers.clear(); });
  EXPECT_EQ(plain.matmuls.by_library, 0);
  EXPECT_EQ(static_cast<int64_t>(plain.matmuls.plain.size()), all.matmuls.by_library);
  EXPECT_THAT(plain.ran, IsEmpty());
  EXPECT_TRUE(std::isfinite(plain.losses.back()));
  EXPECT_FALSE(std::filesystem::exists(file_)) << "nothing was chosen";
}

TEST_F(ProductRuns, AreOurKernelsWhereAskedFor) {
  const Ran plain = run(offloaded, {.matmul = MatmulBy::plain});
  EXPECT_THAT(plain.ran, IsEmpty());
  EXPECT_EQ(plain.matmuls.library, "as asked");
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(ProductRuns, RefuseAnAlgorithmThatCannotRunHere) {
  run(offloaded);
  try {
    run(offloaded, {}, [](FakeProducts& library) { library.numbers = {9}; });
    ADD_FAILURE() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(file_.string()), HasSubstr("fake, driver"),
                                    HasSubstr("fake 1.2.3"), HasSubstr(" a bf16/")));
  }
}

TEST(CudaProducts, AskedForWithoutALibraryAreRefused) {
  CudaMemory memory(std::make_unique<FakeGpu>(any_haste), {nullptr, "no such file"});
  EXPECT_THROW(cuda_workspaces(memory, MatmulBy::cublaslt), InputError);
  const auto [program, op] = program_of(op_case(
      "m", OpKind::matmul, {{{8, 8}, DType::bf16}, {{8, 8}, DType::bf16}}, {{{8, 8}, DType::f32}}));
  CudaMemory with(std::make_unique<FakeGpu>(any_haste), {std::make_unique<FakeProducts>(), ""});
  EXPECT_EQ(cuda_workspaces(with, MatmulBy::cublaslt)(program, op), 33554432);
  EXPECT_EQ(cuda_workspaces(with, MatmulBy::plain)(program, op), 0);
  EXPECT_EQ(cuda_workspaces(memory, MatmulBy::automatic)(program, op), 0);
}

// ---- cuBLASLt

TEST(CublasLt, IsMissedWithAReasonWhereItCannotBeOpened) {
  const OpenedLibrary opened = open_cublaslt("libnot-there.so", nullptr);
  EXPECT_EQ(opened.library, nullptr);
  EXPECT_THAT(opened.why, Not(IsEmpty()));
  if (cuda_state().problem.empty()) return;
  EXPECT_EQ(open_cublaslt().library, nullptr) << "no device";
}

#ifdef FAKE_CUBLASLT

void multiply_on_host(const float* a, const float* b, float* product, float* zero, CUstream_st*) {
  *product = *a * *b;
  *zero = 0;
}

class CublasLtMeaning : public testing::TestWithParam<bool> {};

TEST_P(CublasLtMeaning, IsThatOfTheOp) {
  const bool narrow = GetParam();
  const OpenedLibrary opened = open_cublaslt(FAKE_CUBLASLT, multiply_on_host);
  ASSERT_NE(opened.library, nullptr) << opened.why;
  ProductLibrary& library = *opened.library;
  EXPECT_EQ(library.name(), "cuBLASLt 13.2.3");
  constexpr int64_t bytes = 512;
  std::vector<std::byte> workspace(bytes);
  int64_t ran = 0;
  for (const OpCase& c : product_cases(narrow)) {
    if (c.inputs[0].dtype == DType::f32 && c.outputs[0].dtype == DType::bf16) continue;
    expect_meaning(c, [&](const DenseProduct& product) {
      const auto candidates = library.candidates(product.shape, bytes);
      ASSERT_EQ(candidates.size(), 2u) << "one adds up in the output, one cannot run";
      for (const Algorithm& algorithm : candidates) {
        EXPECT_TRUE(library.usable(product.shape, algorithm, bytes));
        library.run(product, algorithm, workspace, nullptr);
      }
      EXPECT_FALSE(library.usable(product.shape, candidates[0], bytes - 1)) << "it wants all";
      ++ran;
    });
  }
  EXPECT_GT(ran, 20);
}

INSTANTIATE_TEST_SUITE_P(All, CublasLtMeaning, testing::Values(false, true),
                         [](const auto& test) { return test.param ? "narrow" : "plain"; });

TEST(CublasLt, ComputesNoProductOfFloatsRoundedToBf16) {
  const OpenedLibrary opened = open_cublaslt(FAKE_CUBLASLT, multiply_on_host);
  ASSERT_NE(opened.library, nullptr) << opened.why;
  ProductShape shape;
  shape.m = shape.n = shape.k = 16;
  shape.a = shape.b = {DType::f32, false, 16};
  shape.c = {DType::bf16, false, 16};
  EXPECT_THAT(opened.library->candidates(shape, 0), IsEmpty());
  shape.c.dtype = DType::f32;
  EXPECT_EQ(opened.library->candidates(shape, 0).size(), 2u);
  Algorithm in_the_output;
  in_the_output.words = {11, 1};
  EXPECT_FALSE(opened.library->usable(shape, in_the_output, 0)) << "rounds on the way";
  Algorithm unknown;
  unknown.words = {99};
  EXPECT_FALSE(opened.library->usable(shape, unknown, 0));
}

#endif

}  // namespace
}  // namespace spillway
