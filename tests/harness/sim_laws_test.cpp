// The laws of tests/support/sim_laws.h on random programs.

#include "tests/support/sim_laws.h"

#include <gtest/gtest.h>

#include "tests/harness/sim_support.h"

namespace spillway {
namespace {

// Shares of memory bandwidth as on a large GPU, and a host that two devices share.
Machine shared_machine(double hbm_traffic) {
  return round_machine({{"collective_sm_share", 0.12},
                        {"collective_hbm_bytes", 7.5 * hbm_traffic},
                        {"copy_hbm_bytes", hbm_traffic},
                        {"gpus_per_domain", 1},
                        {"nic_bandwidth", 60},
                        {"nic_on_host_link", 0.1},
                        {"host_bandwidth", 120},
                        {"host_devices", 2},
                        {"launch_seconds", 0.01},
                        {"collective_latency", 0.05}});
}

template <class Visit>
void for_each_random(int count, const Visit& visit) {
  std::mt19937 random(20261130);
  for (int round = 0; round < count; ++round) {
    SCOPED_TRACE(round);
    visit(random_schedule(random, 1 + round % 12), random);
  }
}

void record(const char* name, double deviation) {
  testing::Test::RecordProperty(name, std::to_string(deviation * 1e9));  // in 1e-9
}

TEST(SimLaws, BytesMovedEqualThePlan) {
  for_each_random(200, [](const Schedule& schedule, std::mt19937&) {
    EXPECT_EQ(unplanned_bytes(schedule, simulate(schedule, shared_machine(1))), 0);
  });
}

TEST(SimLaws, EveryLaneAccountsForTheStep) {
  double worst = 0;
  for_each_random(200, [&](const Schedule& schedule, std::mt19937&) {
    worst = std::max(worst, unaccounted(simulate(schedule, shared_machine(1))));
  });
  record("deviation", worst);
  EXPECT_LT(worst, 1e-12);
}

TEST(SimLaws, NoResourceIsUsedBeyondItsCapacity) {
  double highest = 0;
  for_each_random(200, [&](const Schedule& schedule, std::mt19937&) {
    for (const double traffic : {0.0, 1.0, 4.0})
      highest = std::max(highest, highest_use(schedule, shared_machine(traffic), {}));
  });
  record("deviation", highest - 1);
  EXPECT_LE(highest, 1 + 1e-12);
  EXPECT_GE(highest, 1 - 1e-12);  // something is used up
}

TEST(SimLaws, DoubleRatesHalveTheStep) {
  double worst = 0;
  for_each_random(200, [&](const Schedule& schedule, std::mt19937&) {
    worst = std::max(worst, doubling_error(schedule, shared_machine(1), {}));
  });
  record("deviation", worst);
  EXPECT_LT(worst, 1e-12);
}

// The order on each lane is fixed, so there are no scheduling anomalies. (What sharing of memory
// adds is bounded in sim_test.cpp and, for real programs, in tests/sweeps/sim_laws_test.cpp.)
TEST(SimLaws, FasterNeverLengthensWhereOnlyCoresAreShared) {
  const Machine machine = round_machine({{"collective_sm_share", 0.12}});
  double worst = 0;
  for_each_random(100, [&](const Schedule& schedule, std::mt19937& random) {
    for (const auto& rates : {link_rates(), fabric_rates(), compute_rates()})
      worst = std::max(worst, lengthening(schedule, machine, {}, rates, random, 12));
  });
  record("deviation", worst);
  EXPECT_LT(worst, 1e-9);
}

}  // namespace
}  // namespace spillway
