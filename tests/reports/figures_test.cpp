#include "reports/figures.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "reports/rows.h"
#include "reports/story.h"
#include "tests/reports/support.h"

namespace spillway {
namespace {

using testing::measured_rows;
using testing::simulated_rows;

std::string label(const Row* row) { return row->label; }

// By hand: 2746/2669 = 1.028850, 2569/2669 = 0.962533, 2718/2669 = 1.018359.
TEST(Figures, PercentOverByHand) {
  EXPECT_NEAR(*percent_over(2746, 2669), 2.885, 5e-4);
  EXPECT_NEAR(*percent_over(2569, 2669), -3.747, 5e-4);
  EXPECT_NEAR(*percent_over(2718, 2669), 1.836, 5e-4);
  EXPECT_NEAR(*percent_over(-0.466, -0.434), -7.373, 5e-4);  // a larger saving is further below
  EXPECT_FALSE(percent_over(std::nullopt, 2669).has_value());
  EXPECT_FALSE(percent_over(1, 0).has_value());
}

TEST(Figures, ReadsByPathAndRefusesWhatIsNotFinite) {
  Row row = measured_rows()[0];
  EXPECT_DOUBLE_EQ(*figure_at(row, "step_seconds.median"), 2.70);
  EXPECT_FALSE(figure_at(row, "step_seconds.mean").has_value());
  EXPECT_FALSE(figure_at(row, "status.median").has_value());
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    row.result["tflops_per_s_per_device"] = bad;
    EXPECT_FALSE(figure_at(row, "tflops_per_s_per_device").has_value());
    EXPECT_FALSE(error_percent(row).has_value());
  }
}

TEST(Figures, ErrorAgainstThePublishedRow) {
  const std::vector<Row> rows = simulated_rows();
  EXPECT_NEAR(*error_percent(rows[1]), 100 * 8.0 / 2746, 1e-9);   // 2754 for 2746
  EXPECT_NEAR(*error_percent(rows[2]), 100 * 37.0 / 2569, 1e-9);  // 2606 for 2569
  EXPECT_TRUE(is_fitted_row(rows[0]));
  EXPECT_FALSE(is_fitted_row(rows[1]));
  EXPECT_FALSE(error_percent(measured_rows()[0]).has_value());
}

// 41,352.495 TFLOP over 2669, 2746, 2569 and 2718: 15.494, 15.059, 16.097 and 15.214 s.
TEST(Figures, PublishedStepsAndDifferencesByHand) {
  const std::vector<Row> rows = simulated_rows();
  EXPECT_NEAR(*published_step_seconds(rows[0]), 15.494, 5e-4);
  EXPECT_NEAR(*published_step_seconds(rows[1]), 15.059, 5e-4);
  EXPECT_NEAR(*published_step_seconds(rows[2]), 16.097, 5e-4);
  EXPECT_NEAR(*published_step_seconds(rows[3]), 15.214, 5e-4);
  const std::vector<Group> groups = groups_of(rows);
  const auto differences = differences_of(groups.at(0));
  ASSERT_EQ(differences.size(), 3u);
  EXPECT_EQ(label(differences[0].minuend) + " - " + label(differences[0].subtrahend),
            "QKV offload + LHS - no offload");
  EXPECT_NEAR(differences[0].published, -0.4345, 5e-4);
  EXPECT_NEAR(differences[1].published, 1.0375, 5e-4);
  EXPECT_NEAR(differences[2].published, 0.1551, 5e-4);
  EXPECT_NEAR(differences[0].ours, 41352.495 / 2754 - 41352.495 / 2669, 1e-9);
}

TEST(Figures, OrderTellsWhetherThePublishedOneIsReproduced) {
  std::vector<Row> rows = simulated_rows();
  EXPECT_TRUE(order_of(groups_of(rows)[0]).same());
  rows[3].result["tflops_per_s_per_device"] = 2800;  // pipelined above LHS
  const std::vector<Group> groups = groups_of(rows);
  const Order order = order_of(groups[0]);
  EXPECT_FALSE(order.same());
  EXPECT_EQ(label(order.ours[0]), "QKV offload + LHS + pipelined");
  EXPECT_EQ(label(order.published[0]), "QKV offload + LHS");
}

// Two batches of a proxy. 2 TFLOP/s in steps of 4 s over 1.6 in 5: the same work, 1.25. At another
// batch 1.2 in 2 s: 0.75. Published 908.2 over 578.3: 1.5705; 541.6 over it: 0.9365.
TEST(Figures, AProxysRatesOverItsRematRow) {
  const auto row = [](const char* label, const char* batch, double rate, double seconds,
                      const char* id) {
    nlohmann::json result = testing::empty_result(label, "measured");
    result["config"] = {{"model", "p"}, {"micro_batch", batch}};
    result["tflops_per_s_per_device"] = rate;
    result["step_seconds"] = {
        {"median", seconds}, {"min", seconds / 1.1}, {"max", seconds * 1.1}, {"n", 3}};
    result["label"] = label;
    if (*id != 0) result["stands_for"] = id;
    return row_of(result, label);
  };
  const std::vector<Row> rows = {row("small", "2", 1.2, 2, "deepseek-v3/offload-lhs-off"),
                                 row("remat", "8", 1.6, 5, "deepseek-v3/remat"),
                                 row("fast", "8", 2, 4, "deepseek-v3/offload-lhs-pipelined"),
                                 row("unnamed", "8", 2, 4, "")};
  const std::vector<Group> groups = groups_of(rows);
  ASSERT_EQ(groups.size(), 2u);
  const auto small = proxy_ratio(rows[0], groups[0]), fast = proxy_ratio(rows[2], groups[1]);
  EXPECT_NEAR(small->ours.median, 0.75, 1e-12);
  EXPECT_NEAR(small->published.value(), 541.6 / 578.3, 1e-12);
  EXPECT_NEAR(fast->ours.median, 1.25, 1e-12);
  EXPECT_NEAR(fast->ours.low, 1.25 / 1.21, 1e-12);
  EXPECT_NEAR(fast->ours.high, 1.25 * 1.21, 1e-12);
  EXPECT_NEAR(fast->published.value(), 908.2 / 578.3, 1e-12);
  EXPECT_FALSE(proxy_ratio(rows[3], groups[1]).has_value());
}

TEST(Figures, RowsWithoutARateTakeNoPartInOrderAndDifferences) {
  std::vector<Row> rows = simulated_rows();
  rows[1].result["tflops_per_s_per_device"] = nullptr;
  const std::vector<Group> groups = groups_of(rows);
  EXPECT_EQ(order_of(groups[0]).ours.size(), 3u);
  for (const Difference& difference : differences_of(groups[0])) {
    EXPECT_NE(difference.minuend, &rows[1]);
    EXPECT_NE(difference.subtrahend, &rows[1]);
  }
}

TEST(Figures, TrafficByDirectionAndShareHidden) {
  const std::vector<Row> rows = measured_rows();
  const Row& off = rows[2];  // two copies of 0.066 s, both exposed
  EXPECT_NEAR(*hidden_percent(off), 0, 1e-9);
  const Row& lhs = rows[3];  // reads exposed, writes not
  EXPECT_DOUBLE_EQ(traffic_of(lhs, "d2h")->exposed, 0);
  EXPECT_DOUBLE_EQ(traffic_of(lhs, "h2d")->exposed, 0.066);
  EXPECT_NEAR(*hidden_percent(lhs), 50, 1e-9);
  EXPECT_NEAR(*hidden_percent(rows[4]), 99, 1e-9);      // 2 % of the reads, none of the writes
  EXPECT_FALSE(hidden_percent(rows[0]).has_value());    // moves nothing
  EXPECT_FALSE(transfer_seconds(rows[5]).has_value());  // did not run
}

TEST(Figures, RatioTakesTheWidestRange) {
  const std::vector<Row> rows = measured_rows();
  const auto ratio = step_ratio(rows[4], rows[1]);  // 2.74 over 2.80, each within 2 %
  ASSERT_TRUE(ratio.has_value());
  EXPECT_NEAR(ratio->median, 2.74 / 2.80, 1e-12);
  EXPECT_NEAR(ratio->low, 2.74 * 0.98 / (2.80 * 1.02), 1e-12);
  EXPECT_NEAR(ratio->high, 2.74 * 1.02 / (2.80 * 0.98), 1e-12);
  EXPECT_FALSE(step_ratio(rows[5], rows[1]).has_value());
}

TEST(Figures, GroupsPutMeasuredFirstAndKeepModelsApart) {
  std::vector<Row> rows = testing::sample_rows();
  const std::vector<Group> groups = groups_of(rows);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].kind, "measured");
  EXPECT_EQ(groups[0].first->label, "device");
  EXPECT_EQ(groups[0].remat->label, "remat");
  EXPECT_EQ(groups[1].first->label, "no offload");
  rows[0].result["config"]["seq"] = 4096;
  EXPECT_EQ(groups_of(rows).size(), 3u);
}

TEST(Figures, AFailedRowIsNoReference) {
  std::vector<Row> rows = measured_rows();
  rows[0].result["status"] = "failed";  // its values differed; its times are still there
  rows[1].result["status"] = "failed";
  const std::vector<Group> groups = groups_of(rows);
  EXPECT_EQ(groups[0].first->label, "QKV offload, LHS off");
  EXPECT_EQ(groups[0].remat, nullptr);
  EXPECT_EQ(groups[0].rows[3]->label, "device");  // behind the rows that count
}

TEST(Figures, TheFirstRowIsTheFirstWithARate) {
  std::vector<Row> rows = measured_rows();
  std::rotate(rows.begin(), rows.end() - 1, rows.end());  // the oom row leads
  EXPECT_EQ(groups_of(rows)[0].first->label, "device");
}

// Another machine or link is another prediction, to be read in a table of its own; executed runs on
// several links are compared with each other.
TEST(Figures, SimulatedMachinesAndLinksAreGroupsOfTheirOwn) {
  std::vector<Row> rows = simulated_rows();
  ASSERT_EQ(groups_of(rows).size(), 1u);
  rows[2].result["config"]["machine"] = "another";
  rows[3].result["config"]["link"] = "52";
  const std::vector<Group> groups = groups_of(rows);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[1].first->label, rows[2].label);
  EXPECT_NE(title_of(groups[1]).find("another"), std::string::npos);
  EXPECT_NE(title_of(groups[2]).find("link 52 GB/s"), std::string::npos);
  std::vector<Row> executed = measured_rows();
  executed[1].result["config"]["link"] = "52";
  EXPECT_EQ(groups_of(executed).size(), 1u);
}

}  // namespace
}  // namespace spillway
