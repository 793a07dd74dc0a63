#include "reports/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "tests/reports/support.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Splits unquoted or quoted fields; a reader written apart from the product's.
std::vector<std::vector<std::string>> split_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows{{""}};
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      const bool doubled = quoted && i + 1 < text.size() && text[i + 1] == '"';
      if (doubled)
        rows.back().back() += text[i++];
      else
        quoted = !quoted;
    } else if (text[i] == ',' && !quoted) {
      rows.back().emplace_back();
    } else if (text[i] == '\n' && !quoted) {
      rows.push_back({""});
    } else {
      rows.back().back() += text[i];
    }
  }
  rows.pop_back();  // after the last line end
  return rows;
}

std::string csv_value(const std::vector<std::vector<std::string>>& csv, size_t row,
                      const std::string& key) {
  const auto found = std::find(csv[0].begin(), csv[0].end(), key);
  EXPECT_NE(found, csv[0].end()) << key;
  return csv[row][static_cast<size_t>(found - csv[0].begin())];
}

TEST(Report, FormatsByName) {
  EXPECT_EQ(parse_format("md"), Format::md);
  EXPECT_EQ(parse_format("html"), Format::html);
  EXPECT_EQ(parse_format("csv"), Format::csv);
  EXPECT_EQ(parse_format("json"), Format::json);
  try {
    parse_format("pdf");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'pdf'"), HasSubstr("md, html, csv, json")));
  }
}

TEST(Report, JsonHoldsEveryFieldOfARun) {
  const json report = json::parse(render_report(testing::sample_rows(), Format::json));
  EXPECT_EQ(report.at("version"), 1);
  ASSERT_EQ(report.at("rows").size(), 10u);
  for (const json& row : report.at("rows")) {
    EXPECT_TRUE(row.contains("label"));
    EXPECT_TRUE(row.contains("published"));
    // The list of the documentation, not the one of the code.
    for (const char* key : {"status",
                            "reason",
                            "kind",
                            "checked",
                            "fitted",
                            "step_seconds",
                            "tflops_per_s_per_device",
                            "tflops_per_s_per_device_full_attention",
                            "executed_matmul_flops",
                            "attention_backward_extra_flops",
                            "tokens_per_s_per_device",
                            "global_batch",
                            "peak_hbm_bytes",
                            "peak_hbm_bytes_used",
                            "peak_hbm_by_role",
                            "routing",
                            "host_bytes",
                            "host_bytes_reserved",
                            "offloaded_bytes_per_step",
                            "exposed_transfer_seconds",
                            "transfers",
                            "link_bytes_per_second",
                            "loss",
                            "gradient_digest",
                            "config",
                            "environment"})
      EXPECT_TRUE(row.contains(key)) << key;
  }
}

TEST(Report, JsonJoinsPublishedWithNullForWhatIsUnknown) {
  const json rows = json::parse(render_report(testing::sample_rows(), Format::json)).at("rows");
  const json& published = rows[1].at("published");
  EXPECT_EQ(published.at("tflops_per_s_per_device"), 2746);
  EXPECT_TRUE(published.at("peak_hbm_gib").is_null());
  EXPECT_EQ(published.at("outcome"), "ok");
  EXPECT_THAT(published.at("source").get<std::string>(), HasSubstr("https://"));
  EXPECT_TRUE(rows[4].at("published").is_null());
}

TEST(Report, JsonSaysNullForAbsentAndNonFinite) {
  Row row = testing::measured_rows()[0];
  row.result["tflops_per_s_per_device"] = std::nan("");
  row.result["tokens_per_s_per_device"] = -std::numeric_limits<double>::infinity();
  row.result.erase("loss");
  const json out = json::parse(render_report({row}, Format::json)).at("rows")[0];
  for (const char* key : {"tflops_per_s_per_device", "tokens_per_s_per_device", "loss"})
    EXPECT_TRUE(out.at(key).is_null()) << key;
}

TEST(Report, NonFiniteIsBlankAndMarkedInvalidInTables) {
  std::vector<Row> rows = testing::measured_rows();
  rows[2].result["tflops_per_s_per_device"] = std::nan("");
  rows[2].result["step_seconds"]["median"] = std::numeric_limits<double>::infinity();
  const auto csv = split_csv(render_report(rows, Format::csv));
  // After the four rows that have a result.
  EXPECT_EQ(csv_value(csv, 5, "status"), "ok, invalid");
  for (const char* key :
       {"tflops_per_s_per_device", "step_seconds_median", "over_first_row_percent"})
    EXPECT_EQ(csv_value(csv, 5, key), "") << key;
  for (const Format format : {Format::md, Format::html, Format::csv}) {
    const std::string report = render_report(rows, format);
    EXPECT_THAT(report, Not(HasSubstr("nan")));
    EXPECT_THAT(report, Not(HasSubstr(">inf")));
  }
}

TEST(Report, CsvHasEveryRowWithExactFiguresAndGroupsMeasuredFirst) {
  const auto csv = split_csv(render_report(testing::sample_rows(), Format::csv));
  ASSERT_EQ(csv.size(), 11u);
  for (const auto& row : csv)
    EXPECT_EQ(row.size(), csv[0].size());
  EXPECT_EQ(csv_value(csv, 1, "kind"), "measured");
  EXPECT_EQ(csv_value(csv, 7, "kind"), "simulated");
  EXPECT_EQ(csv_value(csv, 9, "label"), "QKV offload, LHS off");
  EXPECT_EQ(csv_value(csv, 8, "published_tflops_per_s_per_device"), "2746");
  EXPECT_NEAR(std::stod(csv_value(csv, 8, "error_percent")), 100 * 8.0 / 2746, 1e-9);
  EXPECT_EQ(csv_value(csv, 7, "error"), "fitted");
  EXPECT_NEAR(std::stod(csv_value(csv, 8, "published_over_first_row_percent")), 2.885, 5e-4);
  EXPECT_EQ(csv_value(csv, 8, "offloaded_gib_per_step"), "70.875");
  EXPECT_EQ(csv_value(csv, 8, "published_peak_hbm_gib"), "");
  EXPECT_EQ(csv_value(csv, 8, "fitted_value"), "0.654");
}

TEST(Report, AnOomRowStaysARowWithItsReasonAndBlanks) {
  const auto csv = split_csv(render_report(testing::sample_rows(), Format::csv));
  EXPECT_EQ(csv_value(csv, 6, "status"), "oom");
  EXPECT_EQ(csv_value(csv, 6, "tflops_per_s_per_device"), "");
  EXPECT_EQ(csv_value(csv, 6, "exposed_transfer_seconds"), "");
  EXPECT_THAT(csv_value(csv, 6, "reason"), HasSubstr("wanted 5.52 GiB, available 5.45 GiB"));
  for (const Format format : {Format::md, Format::html})
    EXPECT_THAT(render_report(testing::sample_rows(), format),
                HasSubstr("wanted 5.52 GiB, available 5.45 GiB"));
}

// Every place that shows the figure calls it projected.
TEST(Report, AProjectionIsCalledOneEverywhere) {
  std::vector<Row> rows = testing::measured_rows();
  EXPECT_THAT(render_report(rows, Format::md), Not(HasSubstr("projected")));
  rows[0].result["projected"] = {
      {"kind", "projected"}, {"step_seconds", 17.125}, {"tflops_per_s_per_device", 1234.5}};
  for (const Format format : {Format::md, Format::html}) {
    const std::string report = render_report(rows, format);
    EXPECT_THAT(report, AllOf(HasSubstr("projected, all layers"), HasSubstr("17.125"),
                              HasSubstr("projected TFLOPs/s/device"), HasSubstr("1234")));
  }
  const auto csv = split_csv(render_report(rows, Format::csv));
  const auto column = std::find(csv[0].begin(), csv[0].end(), "projected_step_seconds");
  ASSERT_NE(column, csv[0].end());
  EXPECT_EQ(csv[1][static_cast<size_t>(column - csv[0].begin())], "17.125");
  const json report = json::parse(render_report(rows, Format::json));
  EXPECT_EQ(report.at("rows")[0]["projected"]["kind"], "projected");
}

TEST(Report, RoutingHasColumnsOfCostsWhereThereIsSome) {
  std::vector<Row> rows = testing::measured_rows();
  const std::string dense = render_report(rows, Format::md);
  for (const char* absent : {"rows of an expert", "rows of a rank", "dropped", "peak HBM used"})
    EXPECT_THAT(dense, Not(HasSubstr(absent)));
  rows[0].result["routing"] = {{"expert_rows", {{"mean", 37.125}, {"max", 262144}}},
                               {"rank_rows", {{"planned", 768}, {"mean", 384}, {"max", 512}}},
                               {"dropped_share", 0.0625}};
  EXPECT_THAT(render_report(rows, Format::md), Not(HasSubstr("rows of a rank"))) << "one rank";
  rows[0].result["config"]["expert_parallel"] = "2";
  rows[0].result["peak_hbm_bytes"] = 3LL << 30;
  rows[0].result["peak_hbm_bytes_used"] = 2LL << 30;
  rows[1].result["peak_hbm_bytes_used"] = rows[1].result["peak_hbm_bytes"];
  const std::string md = render_report(rows, Format::md);
  for (const char* shown :
       {"rows of an expert, max / mean", "262144 / 37", "rows of a rank, max / planned",
        "512 / 768", "dropped, %", "6.25", "peak HBM used, GiB", "2.0000"})
    EXPECT_THAT(md, HasSubstr(shown));
  const auto csv = split_csv(render_report(rows, Format::csv));
  EXPECT_EQ(csv_value(csv, 1, "expert_rows_mean"), "37.125");
  EXPECT_EQ(csv_value(csv, 1, "rank_rows_planned"), "768");
  EXPECT_EQ(csv_value(csv, 1, "peak_hbm_used_gib"), "2");
  EXPECT_EQ(csv_value(csv, 2, "peak_hbm_used_gib"), "") << "the whole plan is used";
  EXPECT_EQ(csv_value(csv, 2, "expert_rows_max_mean"), "");
}

TEST(Report, MarkdownTablesAreRectangular) {
  std::istringstream lines(render_report(testing::sample_rows(), Format::md));
  size_t bars = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto found = static_cast<size_t>(std::count(line.begin(), line.end(), '|'));
    const bool in_table = !line.empty() && line[0] == '|';
    if (in_table && bars > 0) {
      EXPECT_EQ(found, bars) << line;
    }
    bars = in_table ? found : 0;
  }
}

TEST(Report, MarkdownSaysWhatIsFittedPredictedAndHowWell) {
  const std::string md = render_report(testing::sample_rows(), Format::md);
  EXPECT_THAT(md, HasSubstr("matmul_efficiency 0.6540 is fitted on the row"));
  EXPECT_THAT(md, HasSubstr("The published order is reproduced: QKV offload + LHS > "));
  EXPECT_THAT(md, HasSubstr("+1.44"));   // 2606 for 2569
  EXPECT_THAT(md, HasSubstr("+1.038"));  // published: LHS off - LHS
  EXPECT_THAT(md, HasSubstr("- **H1** collectives rotated (forced)"));
  EXPECT_THAT(md, HasSubstr("resolved from match:gb200-nvl72"));
  EXPECT_THAT(md, HasSubstr("LHS moves work within one body, so a read"));
  EXPECT_LT(md.find("## Measured"), md.find("## Simulated"));
}

TEST(Report, AWrongOrderIsSaid) {
  std::vector<Row> rows = testing::simulated_rows();
  rows[2].result["tflops_per_s_per_device"] = 2700;  // LHS off above no offload
  EXPECT_THAT(render_report(rows, Format::md), HasSubstr("The published order is not reproduced"));
}

TEST(Report, UncheckedRowsAreMarked) {
  std::vector<Row> rows = testing::measured_rows();
  EXPECT_THAT(render_report(rows, Format::md), Not(HasSubstr("unchecked")));
  rows[3].result["checked"] = false;
  const std::string md = render_report(rows, Format::md);
  EXPECT_THAT(md, HasSubstr("ok, unchecked"));
  EXPECT_THAT(md, HasSubstr("1 of 5 finished rows unchecked"));
}

TEST(Report, NoRowsAndBareRowsRender) {
  for (const Format format : {Format::md, Format::html, Format::csv, Format::json}) {
    EXPECT_FALSE(render_report({}, format).empty());
    const Row failed = row_of({{"status", "failed"},
                               {"reason", "copy lane moved 3 bytes, planned 4"},
                               {"kind", "measured"},
                               {"checked", false},
                               {"config", json::object()}},
                              "r:1");
    EXPECT_THAT(render_report({failed}, format), HasSubstr("planned 4"));
  }
}

}  // namespace
}  // namespace spillway
