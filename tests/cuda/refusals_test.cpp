// What is said before anything runs: no driver, no kernel, a precision the device does not have; and
// what an error of the runtime says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cuda/kernel.h"
#include "harness/cuda/stream_executor.h"
#include "harness/error.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A program of one op.
Program program_of(OpKind kind, Precision precision = Precision::bf16) {
  Program program;
  Op op;
  op.kind = kind;
  op.name = "only";
  op.attributes.precision = precision;
  program.segments = {{"body", Pass::other, 1, -1, {op}}};
  return program;
}

CudaDevice device_of_capability(int major, int minor) {
  CudaDevice device;
  device.name = "a GPU";
  device.major = major;
  device.minor = minor;
  return device;
}

std::string refusal(const Program& program, const CudaDevice& device) {
  try {
    refuse_for_cuda(program, device);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(CudaRefusals, PrecisionsTheTensorCoresDoNotHaveAreNamed) {
  const Program fp8 = program_of(OpKind::matmul, Precision::fp8);
  EXPECT_THAT(refusal(fp8, device_of_capability(8, 0)),
              AllOf(HasSubstr("fp8 on a GPU, compute capability 8.0"), HasSubstr("at least 8.9"),
                    HasSubstr("body/only")));
  const Program nvfp4 = program_of(OpKind::grouped_matmul, Precision::nvfp4);
  EXPECT_THAT(refusal(nvfp4, device_of_capability(9, 0)),
              AllOf(HasSubstr("nvfp4"), HasSubstr("at least 10.0")));
  EXPECT_THAT(refusal(fp8, device_of_capability(9, 0)), Not(HasSubstr("precision")));
  EXPECT_THAT(refusal(nvfp4, device_of_capability(10, 3)), Not(HasSubstr("precision")));
}

TEST(CudaRefusals, ABuildRunsOnTheGpusItsTargetsSay) {
  const std::string all = "80-real 90a-real 100a-real 103a-real 120-real";
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 6}, {9, 0}, {10, 0}, {10, 3}, {12, 1}})
    EXPECT_TRUE(built_for(all, major, minor)) << major << "." << minor;
  for (const auto& [major, minor] : {std::pair{7, 5}, {10, 1}, {11, 0}, {13, 0}})
    EXPECT_FALSE(built_for(all, major, minor)) << major << "." << minor;
  EXPECT_TRUE(built_for("80", 9, 0));  // by translation
  EXPECT_TRUE(built_for("80-virtual", 10, 0));
  EXPECT_FALSE(built_for("90a-real", 8, 0));
  EXPECT_FALSE(built_for("", 9, 0));
  EXPECT_EQ(cuda_targets().empty(), SPILLWAY_HAVE_CUDA == 0);
}

TEST(CudaRefusals, SeveralDevicesNeedSeveralProcesses) {
  Program program = program_of(OpKind::copy_d2d);
  program.devices = 8;
  EXPECT_THAT(refusal(program, device_of_capability(9, 0)), HasSubstr("found 8"));
}

TEST(CudaRefusals, EveryKindWithoutAKernelIsNamed) {
  const CudaDevice device = device_of_capability(10, 0);
  for (int kind = 0; kind < op_kind_count; ++kind) {
    const auto op = static_cast<OpKind>(kind);
    const std::string said = refusal(program_of(op), device);
    if (cuda_kernel(op) == nullptr && info(op).lane != Lane::collective) {
      EXPECT_THAT(said, HasSubstr(text("no CUDA kernel for ", info(op).name)));
    } else {
      EXPECT_EQ(said, "");
    }
  }
}

TEST(CudaKernels, AreFoundByTheirOwnKind) {
  for (int kind = 0; kind < op_kind_count; ++kind) {
    const CudaKernel* kernel = cuda_kernel(static_cast<OpKind>(kind));
    if (kernel == nullptr) continue;
    EXPECT_EQ(kernel->kind, static_cast<OpKind>(kind));
    EXPECT_NE(kernel->run, nullptr);
  }
}

TEST(CudaState, SaysWhatIsMissingAndHowToGetIt) {
  const CudaState state = cuda_state();
  EXPECT_EQ(state.built, SPILLWAY_HAVE_CUDA == 1);
  EXPECT_EQ(state.problem.empty(), !state.devices.empty());
  EXPECT_EQ(state.advice.empty(), state.problem.empty());
  if (!state.built) {
    EXPECT_THAT(state.problem, HasSubstr("no CUDA executor"));
  } else if (state.driver_version == 0) {
    EXPECT_EQ(state.problem, "no CUDA driver");
  }
  if (state.problem.empty()) return;
  try {
    open_cuda();
    FAIL() << "opened what is not there";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr(state.problem));
  }
}

TEST(CudaState, VersionsAreReadAsPeopleWriteThem) {
  EXPECT_EQ(version_text(13000), "13.0");
  EXPECT_EQ(version_text(12080), "12.8");
}

#if SPILLWAY_HAVE_CUDA

// A copy of 4 bytes on a stream of no GPU, which fails without a driver and with one: the stream is
// the null stream, the addresses are null.
TEST(CudaErrors, AFailingCallSaysWhatAndWhichError) {
  const CudaKernel* copy = cuda_kernel(OpKind::copy_d2h);
  ASSERT_NE(copy, nullptr);
  const std::vector<Buffer> operands = {{nullptr, {1}, DType::f32}};
  const Op op;
  const OpCall call{&op, operands, operands, 0};
  try {
    copy->run({call, nullptr, {}, nullptr});
    FAIL() << "no failure";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("cudaMemcpyAsync: cudaError"), HasSubstr("(")));
  }
}

#endif

}  // namespace
}  // namespace spillway
