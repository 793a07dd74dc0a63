// The values of step 0, against a second implementation written from the description.
#include <cmath>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "harness/init.h"
#include "tests/harness/support_cpu.h"

namespace spillway {
namespace {

// One segment that does nothing of note: the executor is only asked to fill its tensors.
Schedule schedule_of(Program program) {
  Tensor unit;
  unit.name = "unit";
  unit.shape = {1};
  unit.extent = Extent::persistent;
  const TensorId a = program.add(unit);
  unit.name = "sum";
  const TensorId b = program.add(unit);
  Op op;
  op.name = "add";
  op.inputs = {{a, Index::all()}, {a, Index::all()}};
  op.outputs = {{b, Index::all()}};
  program.segments = {{"all", Pass::other, 1, -1, {op}}};
  return lay_out(program, {{{StepKind::run, 0}}});
}

Tensor persistent(const char* name, Shape shape, DType dtype, Init init, double scale = 0) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.dtype = dtype;
  tensor.extent = Extent::persistent;
  tensor.init = init;
  tensor.init_scale = scale;
  return tensor;
}

template <class T>
std::vector<T> values(const CpuExecutor& executor, TensorId tensor) {
  const auto bytes = executor.read(tensor);
  std::vector<T> result(bytes.size() / sizeof(T));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

CpuOptions options_of(int threads, uint64_t seed) {
  CpuOptions options;
  options.threads = threads;
  options.seed = seed;
  return options;
}

// SplitMix64 as published: a generator that is stepped, not one that is indexed.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t state) : state_(state) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

TEST(CpuInit, NormalIsTheSumOfFourUniformsOfASplitMix64Stream) {
  Program program;
  const TensorId weight =
      program.add(persistent("layers.q_proj", {70001}, DType::f32, Init::normal, 0.02));
  const Schedule schedule = schedule_of(program);
  const Plan plan = plan_apart(schedule.program);
  CpuExecutor executor(schedule, plan, options_of(2, 42));
  SplitMix64 reference(init_key(42, "layers.q_proj"));
  double sum = 0, squares = 0;
  const auto found = values<float>(executor, weight);
  for (const float value : found) {
    const uint64_t bits = reference.next();
    double expected = -2 * 65535;
    for (int part = 0; part < 4; ++part)
      expected += static_cast<double>((bits >> (16 * part)) & 0xffff);
    expected *= 0.02 / std::sqrt((std::pow(2.0, 32) - 1) / 3);
    ASSERT_NEAR(value, expected, 1e-8);
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto n = static_cast<double>(found.size());
  EXPECT_NEAR(sum / n, 0, 5 * 0.02 / std::sqrt(n));  // five standard errors
  EXPECT_NEAR(squares / n / (0.02 * 0.02), 1, 5 * 2 / std::sqrt(n));
}

TEST(CpuInit, SameForAnyThreadCountAndPlaceButNotForAnotherSeedOrName) {
  Program program;
  const TensorId one = program.add(persistent("one", {3, 40000}, DType::f32, Init::normal, 1));
  const TensorId two = program.add(persistent("two", {3, 40000}, DType::f32, Init::normal, 1));
  const Schedule schedule = schedule_of(program);
  const Plan plan = plan_apart(schedule.program);
  Plan moved = plan;
  std::swap(moved.offset[0], moved.offset[1]);
  CpuExecutor a(schedule, plan, options_of(1, 1)), b(schedule, moved, options_of(3, 1));
  CpuExecutor c(schedule, plan, options_of(1, 2));
  EXPECT_EQ(a.read(one), b.read(one));
  EXPECT_EQ(a.read(two), b.read(two));
  EXPECT_NE(a.read(one), a.read(two));
  EXPECT_NE(a.read(one), c.read(one));
}

TEST(CpuInit, ConstantsAndConvertedCopies) {
  Program program;
  const TensorId ones = program.add(persistent("ones", {5}, DType::bf16, Init::one));
  const TensorId zeros = program.add(persistent("zeros", {5}, DType::f32, Init::zero));
  Tensor copy = persistent("copy", {9}, DType::bf16, Init::none);
  copy.init_from = 3;  // the next tensor: order does not matter
  const TensorId converted = program.add(copy);
  const TensorId master = program.add(persistent("master", {9}, DType::f32, Init::normal, 1));
  const Schedule schedule = schedule_of(program);
  const Plan plan = plan_apart(schedule.program);
  const CpuExecutor executor(schedule, plan, options_of(2, 3));
  EXPECT_EQ(values<uint16_t>(executor, ones), std::vector<uint16_t>(5, 0x3f80));
  EXPECT_EQ(values<float>(executor, zeros), std::vector<float>(5, 0.0F));
  const auto exact = values<float>(executor, master);
  const auto rounded = values<uint16_t>(executor, converted);
  for (size_t i = 0; i < exact.size(); ++i) {
    const uint32_t bits = uint32_t{rounded[i]} << 16;
    float value = 0;
    std::memcpy(&value, &bits, 4);
    EXPECT_NEAR(value, exact[i], std::abs(exact[i]) / 256);  // half a unit in 8 bits
  }
}

TEST(CpuInit, TargetsAreTheNextTokensOfTheirRow) {
  Program program;
  program.batch = 3;
  program.seq = 50;
  const TensorId tokens = program.add(persistent("tokens", {150}, DType::i32, Init::tokens, 11));
  const TensorId targets = program.add(persistent("targets", {150}, DType::i32, Init::targets, 11));
  const Schedule schedule = schedule_of(program);
  const Plan plan = plan_apart(schedule.program);
  const CpuExecutor executor(schedule, plan, options_of(1, 5));
  const auto token = values<int32_t>(executor, tokens), target = values<int32_t>(executor, targets);
  std::map<int32_t, int> seen;
  for (size_t row = 0; row < 150; ++row) {
    if (row % 50 != 49) {
      EXPECT_EQ(target[row], token[row + 1]);
    }
    ASSERT_GE(token[row], 0);
    ASSERT_LT(token[row], 11);
    ++seen[token[row]];
  }
  EXPECT_EQ(seen.size(), 11U);  // missing one of 11 in 150 draws: 7e-6
  // A row's last target is no other row's first token by construction: it has a place of its own.
  EXPECT_EQ(target[49], stream_token(5, 50, 11));
  EXPECT_EQ(token[50], stream_token(5, 51, 11));
}

}  // namespace
}  // namespace spillway
