// The laws of tests/support/sim_laws.h on every row of the shipped sweeps, and those that need
// policies.

#include "tests/support/sim_laws.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "sweeps/run.h"
#include "sweeps/sweep_file.h"

namespace spillway {
namespace {

// Of grids, whose points differ by little, every fourth.
template <class Visit>
void for_each_row(const Visit& visit) {
  for (const std::string& name : sweep_names()) {
    size_t number = 0;
    for (const SweepPoint& row : load_sweep(name).points) {
      if (row.point.executor != ExecutorKind::sim) continue;
      if (name.ends_with("-grid") && number++ % 4 != 0) continue;
      SCOPED_TRACE(name + "/" + row.label);
      const Prepared prepared = prepare(row.point, {});
      if (prepared.status == Status::ok) visit(prepared);
    }
  }
}

void record_worst(double deviation) {  // in 1e-9
  testing::Test::RecordProperty("deviation", std::to_string(deviation * 1e9));
}

TEST(SimLawsRows, BytesMovedEqualThePlan) {
  int rows = 0;
  for_each_row([&](const Prepared& row) {
    EXPECT_EQ(unplanned_bytes(row.schedule, run_sim(row).traces[0]), 0);
    ++rows;
  });
  RecordProperty("rows", rows);
  EXPECT_GT(rows, 30);
}

TEST(SimLawsRows, EveryLaneAccountsForTheStep) {
  double worst = 0;
  for_each_row(
      [&](const Prepared& row) { worst = std::max(worst, unaccounted(run_sim(row).traces[0])); });
  record_worst(worst);
  EXPECT_LT(worst, 1e-9);
}

TEST(SimLawsRows, NoResourceIsUsedBeyondItsCapacity) {
  double highest = 0;
  for_each_row([&](const Prepared& row) {
    highest = std::max(highest, highest_use(row.schedule, row.machine, row.sim));
  });
  record_worst(highest - 1);
  EXPECT_LE(highest, 1 + 1e-12);
}

TEST(SimLawsRows, DoubleRatesHalveTheStep) {
  double worst = 0;
  for_each_row([&](const Prepared& row) {
    worst = std::max(worst, doubling_error(row.schedule, row.machine, row.sim));
  });
  record_worst(worst);
  EXPECT_LT(worst, 1e-9);
}

// Up to twice as fast as the machine, which is what its successor is announced to have; what happens
// beyond is in docs/model.md, "What is not modelled".
TEST(SimLawsRows, FasterNeverLengthens) {
  double worst = 0;
  std::mt19937 random(4);
  for_each_row([&](const Prepared& row) {
    for (const auto& rates : {link_rates(), fabric_rates(), compute_rates()})
      worst = std::max(worst, lengthening(row.schedule, row.machine, row.sim, rates, random, 16));
  });
  record_worst(worst);
  EXPECT_LT(worst, 1e-3);
}

// Where nothing is shared and copies are free, what is offloaded might as well have stayed.
Prepared on_one_device(const std::string& model, const std::string& fate, bool lhs) {
  Point point;
  point.executor = ExecutorKind::sim;
  point.model = model;
  point.micro_batch = 2;
  point.lhs = lhs;
  for (const char* name : {"query_proj", "key_proj", "value_proj", "mlpwi_0", "mlpwi_1"})
    point.policy =
        (name == std::string("query_proj") ? "" : point.policy + ",") + name + "=" + fate;
  Settings settings;
  settings.free_transfers = true;
  return prepare(point, settings);
}

std::set<std::string> ops_of(const Program& program) {
  std::set<std::string> names;
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops)
      names.insert(segment.name + "/" + op.name);
  return names;
}

double seconds_beyond(const Prepared& row, const Program& other) {
  const std::set<std::string> known = ops_of(other);
  double seconds = 0;
  for (const Segment& segment : row.schedule.program.segments)
    for (const Op& op : segment.ops)
      if (lane_of(op) == Lane::compute && !known.contains(segment.name + "/" + op.name))
        seconds += static_cast<double>(segment.trips) *
                   op_seconds(row.schedule.program, op, row.machine, row.sim);
  return seconds;
}

TEST(SimLawsRows, FreeTransfersMakeOffloadAsFastAsDevice) {
  double worst = 0;
  for (const char* model : {"llama-tiny", "llama3.1-8b", "llama3.1-405b"})
    for (const bool lhs : {false, true}) {
      SCOPED_TRACE(model);
      const Prepared device = on_one_device(model, "device", lhs);
      const Prepared offload = on_one_device(model, "offload", lhs);
      const Prepared remat = on_one_device(model, "remat", lhs);
      const double kept = run_sim(device).traces[0].seconds;
      const double again = seconds_beyond(remat, device.schedule.program);
      EXPECT_GT(again, 0.05 * kept);
      worst = std::max({worst, std::abs(run_sim(offload).traces[0].seconds - kept),
                        std::abs(run_sim(remat).traces[0].seconds - kept - again)});
    }
  record_worst(worst);
  EXPECT_LT(worst, 1e-9);
}

// Live bytes along the simulated compute lane, counted from what its steps bring and take.
int64_t highest_live_bytes(const Schedule& schedule) {
  const Program& program = schedule.program;
  int64_t live = 0, highest = 0;
  const auto add = [&](const std::vector<TensorId>& tensors, int64_t sign) {
    for (const TensorId id : tensors)
      if (program.at(id).space == Space::device) live += sign * program.at(id).bytes();
    highest = std::max(highest, live);
  };
  for (const Tensor& tensor : program.tensors)
    if (tensor.extent == Extent::persistent && tensor.space == Space::device)
      live += tensor.bytes();
  for (const SegmentSchedule& segment : schedule.segments) {
    add(segment.enter_allocate, 1);
    for (const LaneStep& step : segment.lanes[index_of(Lane::compute)]) {
      add(step.allocate, 1);
      add(step.release, -1);
    }
    add(segment.exit_release, -1);
  }
  return highest;
}

TEST(SimLawsRows, LiveBytesStayUnderThePlannedPeak) {
  for_each_row([](const Prepared& row) {
    const int64_t highest = highest_live_bytes(row.schedule);
    EXPECT_LE(highest, row.plan.device_bytes);
    EXPECT_GT(highest, row.plan.device_bytes / 2);
    const auto curve = result_of(row, run_sim(row), {})["memory_curve"];
    for (const auto& point : curve) {
      int64_t sum = 0;
      for (const auto& [role, bytes] : point["bytes"].items())
        sum += bytes.get<int64_t>();
      EXPECT_LE(sum, row.plan.device_bytes);
    }
  });
}

}  // namespace
}  // namespace spillway
