// The parts that scripts/gpu_check.sh runs on a GPU, on the stand-in: they pass where all is well,
// and fail where it is not. Rates of a stand-in mean nothing.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cuda/algorithms.h"
#include "tests/cuda/support_fake_gpu.h"
#include "tests/cuda/support_products.h"
#include "tests/gpu/part.h"
#include "tests/gpu/timing.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Subject fake_subject(const Haste& haste = any_haste, KernelOf kernels = fake_kernel) {
  return {std::make_shared<CudaMemory>(std::make_unique<FakeGpu>(haste)), kernels,
          fake_workspace_bytes};
}

Effort effort_of(double seconds, bool small) {
  return {std::chrono::steady_clock::now() +
              std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3)),
          small};
}

const Effort small_effort = effort_of(600, true);

TEST(GpuCheck, OpsPassByTheKernelsThatDefineThem) {
  const Finding finding = check_ops(fake_subject(), small_effort);
  EXPECT_EQ(finding.verdict, Verdict::pass) << finding.reason;
  const nlohmann::json& worst = finding.figures["worst"];
  EXPECT_GE(worst.size(), 30U);
  for (const auto& [kind, found] : worst.items()) {
    EXPECT_LE(found["of_allowed"].get<double>(), 1) << kind;
    EXPECT_EQ(found["from_cpu"].get<double>(), 0) << kind;
  }
}

// Products of a library are a row of their own beside our kernels'.
TEST(GpuCheck, OpsLookAtTheLibraryOfProductsToo) {
  const fs::path cache = fs::path(testing::TempDir()) / "gpu_check_cache";
  fs::remove_all(cache);
  ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  const Subject subject{
      std::make_shared<CudaMemory>(std::make_unique<FakeGpu>(any_haste),
                                   OpenedLibrary{std::make_unique<FakeProducts>(), ""}),
      fake_kernel, fake_workspace_bytes};
  const Finding finding = check_ops(subject, small_effort);
  EXPECT_EQ(finding.verdict, Verdict::pass) << finding.reason;
  const nlohmann::json& worst = finding.figures["worst"];
  ASSERT_TRUE(worst.contains("matmul by fake 1.2.3")) << worst;
  EXPECT_EQ(worst["matmul by fake 1.2.3"]["cases"], worst["matmul"]["cases"]);
  EXPECT_TRUE(fs::exists(default_algorithm_file()));
}

// Every kernel adds to the first element it wrote.
const CudaKernel* wrong_kernel(OpKind kind) {
  static const CudaKernel wrong{OpKind::add, [](const CudaCall& call) {
                                  fake_kernel(call.call.op->kind)->run(call);
                                  const Buffer& out = call.call.outputs[0];
                                  static const std::byte byte{0x41};
                                  reinterpret_cast<FakeStream*>(call.stream)
                                      ->gpu->copy(out.as<std::byte>() + bytes_of(out.dtype) - 1,
                                                  &byte, 1, call.stream);
                                }};
  return kind == OpKind::add ? &wrong : fake_kernel(kind);
}

TEST(GpuCheck, OpsNameTheCaseThatIsOff) {
  const Finding finding = check_ops(fake_subject(any_haste, wrong_kernel), small_effort);
  EXPECT_EQ(finding.verdict, Verdict::fail);
  EXPECT_THAT(finding.reason, HasSubstr("add_"));
  EXPECT_GT(finding.figures["worst"]["add"]["of_allowed"].get<double>(), 1);
  EXPECT_LE(finding.figures["worst"]["matmul"]["of_allowed"].get<double>(), 1);
}

TEST(GpuCheck, ModelsAreIdenticalAndCloseToTheCpu) {
  const Finding identity = check_identity(fake_subject(), small_effort);
  EXPECT_EQ(identity.verdict, Verdict::pass) << identity.reason;
  const Finding cpu = check_against_cpu(fake_subject(), small_effort);
  EXPECT_EQ(cpu.verdict, Verdict::pass) << cpu.reason;
  EXPECT_EQ(cpu.figures.size(), 6U);
}

TEST(GpuCheck, WrongValuesAreSeenBesideTheCpu) {
  const Finding finding = check_against_cpu(fake_subject(any_haste, wrong_kernel), small_effort);
  EXPECT_EQ(finding.verdict, Verdict::fail);
  EXPECT_THAT(finding.reason, HasSubstr("llama-tiny"));
}

// What is not done in time is left out and counted, never passed over.
TEST(GpuCheck, TellsWhatItHadNoTimeFor) {
  const Effort none = effort_of(-1, false);
  EXPECT_EQ(check_ops(fake_subject(), none).verdict, Verdict::fail);
  EXPECT_EQ(check_races(fake_subject(), none).verdict, Verdict::fail);
  const Finding copies = check_copies(fake_subject(), none);
  EXPECT_EQ(copies.figures["left_out_for_time"].size(), 8U);
}

TEST(GpuCheck, DroppedWaitsShow) {
  const Finding finding = check_races(fake_subject(compute_first), effort_of(10, true));
  EXPECT_GT(finding.figures["dropped"].get<int64_t>(), 0);
  EXPECT_GT(finding.figures["seen"].get<int64_t>(), 0);
  EXPECT_EQ(finding.figures["dropped"].get<int64_t>() - finding.figures["seen"].get<int64_t>(),
            static_cast<int64_t>(finding.figures["unseen"].size()));
}

TEST(GpuCheck, CopiesHaveBothRates) {
  const Finding finding = check_copies(fake_subject(), small_effort);
  ASSERT_EQ(finding.figures.size(), 1U);
  const nlohmann::json& both = finding.figures.front();
  EXPECT_NEAR(both["ratio"].get<double>(),
              both["bytes_per_second"].get<double>() / both["plain_bytes_per_second"].get<double>(),
              1e-9);
}

// A tick a piece of work: four copies of n bytes, read and written, take 4e-5 s.
TEST(GpuCheck, TimesWhatWasIssued) {
  const Subject subject = fake_subject();
  EXPECT_NEAR(copy_ceiling(subject, 1000), 2 * 4 * 1000 / 4e-5, 1);
  EXPECT_NEAR(square_product_rate(subject, 64), 2.0 * 64 * 64 * 64 / 1e-5, 1);
}

TEST(GpuCheck, ALineHasEveryField) {
  Finding finding;
  finding.fail("first");
  finding.fail("second");
  const nlohmann::json line = nlohmann::json::parse(line_of("ops", finding, 1.5).dump());
  EXPECT_EQ(line["part"], "ops");
  EXPECT_EQ(line["status"], "fail");
  EXPECT_EQ(line["reason"], "first");
  EXPECT_EQ(line["seconds"], 1.5);
  EXPECT_TRUE(line_of("ops", {}, 0)["reason"].is_null());
}

TEST(GpuCheck, PartsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const Part& part : parts())
    names.insert(part.name);
  EXPECT_EQ(names.size(), parts().size());
  EXPECT_EQ(parts().front().name, std::string("environment"));
}

// ---- the script

struct Done {
  int code;
  std::string output;
};

Done run_script(const std::string& arguments) {
  const fs::path log = fs::path(testing::TempDir()) / "gpu_check_script.log";
  const std::string command =
      SPILLWAY_SOURCE_DIR "/scripts/gpu_check.sh " + arguments + " >" + log.string() + " 2>&1";
  const int status = std::system(command.c_str());
  std::ifstream in(log);
  return {WEXITSTATUS(status), std::string(std::istreambuf_iterator<char>(in), {})};
}

TEST(GpuCheckScript, PacksLittle) {
  if (!fs::exists("/usr/include/CLI")) GTEST_SKIP() << "headers elsewhere";
  const fs::path pack = fs::path(testing::TempDir()) / "gpu_check_pack";
  fs::remove_all(pack);
  const Done done = run_script("--pack " + pack.string());
  ASSERT_EQ(done.code, 0) << done.output;
  uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(pack))
    if (entry.is_regular_file()) bytes += entry.file_size();
  EXPECT_GT(bytes, 500'000U);
  EXPECT_LT(bytes, 40U << 20);
  for (const char* header : {"nlohmann/json.hpp", "CLI/CLI.hpp", "libfccp/csv.h"})
    EXPECT_TRUE(fs::exists(pack / "include" / header)) << header;
}

TEST(GpuCheckScript, SaysWhatIsWrongWithItsOptions) {
  for (const char* arguments : {"", "--out /tmp/x", "--deps", "--deps /nonexistent --out /tmp/x",
                                "--pock here", "--build /nonexistent --out /tmp/x"}) {
    const Done done = run_script(arguments);
    EXPECT_EQ(done.code, 2) << arguments << ": " << done.output;
    EXPECT_THAT(done.output, HasSubstr("expected --pack DIR"));
  }
}

// Here without a GPU: it gets as far as that, and leaves its files.
TEST(GpuCheckScript, StopsWhereADeviceIsNeeded) {
  if (cuda_state().problem.empty()) GTEST_SKIP() << "there is a GPU";
  if (std::system(GPU_CHECK_DIR "/spillway_gpu_check --list >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "a cross build: it runs under an emulator alone";
  const fs::path out = fs::path(testing::TempDir()) / "gpu_check_out";
  fs::remove_all(out);
  const Done done = run_script("--build " GPU_CHECK_DIR " --out " + out.string());
  EXPECT_EQ(done.code, 2) << done.output;
  EXPECT_THAT(done.output, HasSubstr(cuda_state().problem));
  EXPECT_LE(std::distance(fs::directory_iterator(out), fs::directory_iterator()), 4);
}

}  // namespace
}  // namespace spillway
