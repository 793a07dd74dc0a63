// Look-ups of measured rates by hand arithmetic, what a simulation makes of them, and the section
// `rates` of machine files.
#include "harness/op_rates.h"

#include <gmock/gmock.h>

#include "harness/error.h"
#include "harness/rates_json.h"
#include "tests/harness/sim_support.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

OpRate rate_of(std::vector<int64_t> shape, double work, double seconds, OpKind kind = OpKind::add) {
  return {{kind, "f32 f32 -> f32", std::move(shape), work}, seconds, 0, 1};
}

OpSize size_like(std::vector<int64_t> shape, double work) { return rate_of(shape, work, 1).size; }

Rates rates_with(std::vector<OpRate> ops) {
  Rates rates;
  rates.ops = std::move(ops);
  return rates;
}

TEST(OpRates, AnOpsSizeIsItsDimensionsVariantAndWork) {
  SimBody body;
  body.matmul(2);  // [1, 1] x [1, 500] in bf16
  const OpSize size = size_of(body.program(), body.program().segments[0].ops[0]);
  EXPECT_EQ(size.kind, OpKind::matmul);
  EXPECT_EQ(size.variant, "nn bf16: bf16 bf16 -> bf16");
  EXPECT_THAT(size.shape, testing::ElementsAre(1, 1, 1, 500, 1, 500));
  EXPECT_EQ(size.work, 2 * 1 * 1 * 500);
  body.add(1);  // 100 floats, two read and one written
  const OpSize row = size_of(body.program(), body.program().segments[0].ops[1]);
  EXPECT_EQ(row.variant, "f32 f32 -> f32");
  EXPECT_EQ(row.work, 3 * 400);
}

TEST(OpRates, AMeasuredSizeTakesItsOwnTime) {
  const Rates rates = rates_with({rate_of({4, 2}, 100, 3), rate_of({2, 4}, 100, 5)});
  EXPECT_EQ(measured_seconds(rates, size_like({2, 4}, 100)), 5);
}

// 16 = 4 ^ 2 times as long at 4 times the work: halfway, at twice the work, 2 ^ 2 times.
TEST(OpRates, BetweenTwoSizesLogarithmsAreLinear) {
  const Rates rates = rates_with({rate_of({4}, 400, 16), rate_of({1}, 100, 1)});
  EXPECT_NEAR(*measured_seconds(rates, size_like({2}, 200)), 4, 1e-12);
}

// Half a second is fixed; the other second goes with the work.
TEST(OpRates, OutsideOfTheSizesTimeGrowsWithWorkBeyondTheFixedPart) {
  Rates rates = rates_with({rate_of({1}, 100, 1.5), rate_of({2}, 200, 2.5)});
  rates.overheads.pool_start = 0.5;
  EXPECT_NEAR(*measured_seconds(rates, size_like({8}, 50)), 1, 1e-12);
  EXPECT_NEAR(*measured_seconds(rates, size_like({9}, 400)), 4.5, 1e-12);
}

// The rows with 8 columns say 2 s at this work, those with 3 say 20.
TEST(OpRates, RowsThatShareMoreDimensionsStandForASize) {
  const Rates rates = rates_with({rate_of({1, 8}, 100, 1), rate_of({4, 8}, 400, 4),
                                  rate_of({10, 3}, 100, 10), rate_of({40, 3}, 400, 40)});
  EXPECT_NEAR(*measured_seconds(rates, size_like({2, 8}, 200)), 2, 1e-12);
  EXPECT_NEAR(*measured_seconds(rates, size_like({20, 3}, 200)), 20, 1e-12);
}

TEST(OpRates, AnotherKindOrVariantSaysNothing) {
  const Rates rates = rates_with({rate_of({1}, 100, 1)});
  OpSize other = size_like({1}, 100);
  other.kind = OpKind::swiglu;
  EXPECT_FALSE(measured_seconds(rates, other));
  other = size_like({1}, 100);
  other.variant = "bf16 bf16 -> bf16";
  EXPECT_FALSE(measured_seconds(rates, other));
}

TEST(OpRates, ALanesRateGoesByTheSizeOfCopies) {
  Rates rates;
  rates.copies = {{CopyLanes::d2h, 400, 40, 0}, {CopyLanes::d2h, 100, 10, 0}};
  EXPECT_NEAR(*unpaced_rate(rates, CopyLanes::d2h, 200), 20, 1e-12);
  EXPECT_EQ(unpaced_rate(rates, CopyLanes::d2h, 1), 10);
  EXPECT_EQ(unpaced_rate(rates, CopyLanes::d2h, 1e6), 40);
  EXPECT_FALSE(unpaced_rate(rates, CopyLanes::h2d, 200));
}

// Products keep 4/5 of their speed at 1 byte/s and 3/5 at 2: a fifth a byte/s. Ops that stream keep
// 1/2 and nothing is said beyond: (1 x 0.5 + 2 x 0.5) / (1 + 4) = 0.3. Unpaced rows do not count.
TEST(OpRates, TheCostOfCopiesIsALineThroughTheOrigin) {
  const CopyCost cost = fit_copy_cost({{CopyLanes::d2h, 1, 1, 1.25, 2},
                                       {CopyLanes::both, 1, 2, 5.0 / 3, 2},
                                       {CopyLanes::both, 0, 9, 8, 8}});
  EXPECT_NEAR(cost.products, 0.2, 1e-12);
  EXPECT_NEAR(cost.stream, 0.3, 1e-12);
  EXPECT_EQ(fit_copy_cost({{CopyLanes::d2h, 1, 1, 0.9, 0.9}}).products, 0);
}

TEST(OpRates, ASlowMachineIsSlowInAllButItsLink) {
  Rates rates = rates_with({rate_of({1}, 100, 1)});
  rates.copies = {{CopyLanes::d2h, 100, 10, 0}};
  rates.overheads.between_ops = 0.25;
  rates.copy_cost.products = 0.5;
  const Rates slow = slowed(rates, 2);
  EXPECT_EQ(slow.ops[0].seconds, 2);
  EXPECT_EQ(slow.copies[0].bytes_per_second, 5);
  EXPECT_EQ(slow.overheads.between_ops, 0.5);
  EXPECT_EQ(slow.copy_cost.products, 1);
}

// A machine on which adding 100 floats takes 7 s, and a lane copies 40 bytes/s at most.
Machine measured_machine() {
  Machine machine = round_machine();
  OpRate add = rate_of({100, 100, 100}, 1200, 7);
  machine.rates.ops = {add};
  machine.rates.copies = {{CopyLanes::d2h, 40, 40, 0}, {CopyLanes::h2d, 40, 40, 0}};
  return machine;
}

TEST(MeasuredDemand, MeasuredOpsTakeTheirTimeAndOthersWhatTheFiguresSay) {
  SimBody body;
  const int add = body.add(1), matmul = body.matmul(2);
  const auto seconds = [&](int op, const Machine& machine) {
    return op_seconds(body.program(), body.program().segments[0].ops[index_of(op)], machine, {});
  };
  Machine machine = measured_machine();
  machine.rates.overheads.between_ops = 0.5;
  EXPECT_NEAR(seconds(add, machine), 7.5, 1e-12);
  EXPECT_NEAR(seconds(matmul, machine), 2, 1e-12);
  EXPECT_NEAR(seconds(add, round_machine()), 1, 1e-12);
}

// 40 bytes at 10 bytes/s; asked for 80, the lane still takes what it takes.
TEST(MeasuredDemand, ALinkIsPacedAsFarAsALaneGoes) {
  SimBody body;
  const int copy = body.d2h(1);  // 10 floats
  const Schedule schedule = body.schedule({{StepKind::start, copy}, {StepKind::done, copy}});
  SimOptions options;
  options.link_bytes_per_second = 10;
  EXPECT_NEAR(simulate(schedule, measured_machine(), options).seconds, 4, 1e-12);
  options.link_bytes_per_second = 80;
  EXPECT_NEAR(simulate(schedule, measured_machine(), options).seconds, 1, 1e-12);
}

// The copy holds 10 x 0.02 = 1/5 of compute for 4 s, in which the add does 3.2 of its 7 s.
TEST(MeasuredDemand, CopiesTakeProcessorTimeFromCompute) {
  SimBody body;
  const int copy = body.d2h(1), add = body.add(1);
  const Schedule schedule =
      body.schedule({{StepKind::start, copy}, {StepKind::run, add}, {StepKind::done, copy}});
  Machine machine = measured_machine();
  machine.rates.copy_cost.products = 0.02;
  SimOptions options;
  options.link_bytes_per_second = 10;
  EXPECT_NEAR(simulate(schedule, machine, options).seconds, 4 + 3.8, 1e-12);
}

nlohmann::json rates_json() {
  return nlohmann::json::parse(R"({
    "date": "2026-01-02", "environment": {"cpu": "a box"}, "threads": 2,
    "reference": {"seconds": 0.5, "spread": 0.01},
    "overheads": {"between_ops": 1e-6, "pool_start": 2e-6, "copy_start": 3e-6, "copy_end": 4e-6},
    "copy_cost": {"products": 1e-11, "stream": 2e-11},
    "copies": [{"lanes": "both", "bytes": 4096, "bytes_per_second": 5e9, "spread": 0.1}],
    "contention": [{"lanes": "d2h", "paced": 1e9, "moved": 9e8, "products": 1.1, "stream": 1.2}],
    "ops": [{"op": "matmul", "variant": "nn bf16: bf16 bf16 -> f32", "shape": [2, 3, 3, 4, 2, 4],
             "work": 48, "seconds": 0.25, "spread": 0.02, "samples": 7}]})");
}

TEST(RatesJson, WhatIsWrittenReadsBackTheSame) {
  const Rates rates = parse_rates(rates_json(), "box.json");
  EXPECT_EQ(rates.threads, 2);
  EXPECT_EQ(rates.ops.at(0).size.kind, OpKind::matmul);
  EXPECT_EQ(rates.ops[0].seconds, 0.25);
  EXPECT_EQ(rates.copies.at(0).lanes, CopyLanes::both);
  EXPECT_EQ(rates.contention.at(0).moved, 9e8);
  EXPECT_EQ(rates.overheads.copy_end, 4e-6);
  EXPECT_EQ(nlohmann::json::parse(json_of(rates).dump()), rates_json());
}

std::string refusal_of(const char* pointer, const nlohmann::json& value) {
  nlohmann::json changed = rates_json();
  changed[nlohmann::json::json_pointer(pointer)] = value;
  const nlohmann::json file = {
      {"name", "box"}, {"figures", nlohmann::json::object()}, {"rates", changed}};
  try {
    parse_machine(file.dump(), "box.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(RatesJson, MistakesAreToldWithFileKeyFoundAndExpected) {
  EXPECT_EQ(refusal_of("/threads", 3), "accepted");
  EXPECT_THAT(refusal_of("/threads", 1.5), AllOf(HasSubstr("box.json: rates"), HasSubstr("threads"),
                                                 HasSubstr("1.5"), HasSubstr("whole number")));
  EXPECT_THAT(refusal_of("/ops/0/op", "matmull"),
              AllOf(HasSubstr("ops[0]"), HasSubstr("matmull"), HasSubstr("grouped_matmul")));
  EXPECT_THAT(refusal_of("/ops/0/seconds", 0), AllOf(HasSubstr("ops[0]"), HasSubstr("seconds")));
  EXPECT_THAT(refusal_of("/ops/0/shape", nlohmann::json::array({2, "x"})),
              AllOf(HasSubstr("shape"), HasSubstr("\"x\""), HasSubstr("whole numbers")));
  EXPECT_THAT(refusal_of("/ops/0/flops", 1), AllOf(HasSubstr("flops"), HasSubstr("samples")));
  EXPECT_THAT(refusal_of("/copies/0/lanes", "d2d"), AllOf(HasSubstr("d2d"), HasSubstr("both")));
  EXPECT_THAT(refusal_of("/contention/0", 4), AllOf(HasSubstr("contention[0]"), HasSubstr("4")));
  EXPECT_THAT(refusal_of("/overheads/copy_end", "soon"),
              AllOf(HasSubstr("overheads"), HasSubstr("copy_end"), HasSubstr("soon")));
  EXPECT_THAT(refusal_of("/reference", 1), AllOf(HasSubstr("reference"), HasSubstr("object")));
}

}  // namespace
}  // namespace spillway
