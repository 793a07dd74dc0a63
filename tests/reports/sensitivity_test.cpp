// Verdicts on hypotheses, by hand-made variations.
#include "reports/sensitivity.h"

#include <gmock/gmock.h>

#include "harness/error.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SensitivityRow row(const std::string& label, double rate, double published) {
  SensitivityRow made;
  made.label = label;
  made.status = made.published_outcome = "ok";
  made.tflops_per_s_per_device = rate;
  made.published = published;
  return made;
}

// Published: first 100, second 110, third 90; the first is fitted.
SensitivityVariation rates(const std::string& label, double second, double third) {
  SensitivityVariation variation{"H1", label, 0.5, {row("first", 100, 100)}, {}};
  variation.rows.front().fitted = true;
  variation.rows.push_back(row("second", second, 110));
  variation.rows.push_back(row("third", third, 90));
  return variation;
}

SweepSensitivity sweep_with(const std::vector<SensitivityVariation>& alternatives) {
  SweepSensitivity sweep;
  sweep.name = "example";
  sweep.fitted_on = "first";
  sweep.base = rates("", 110.55, 90);  // +0.5 %
  sweep.hypotheses = {{"H1", "setting", "forced by the published rows", alternatives}};
  sweep.rates = {{"fp8", 4900e12, 2000e12, 2100e12}};
  return sweep;
}

std::string why(const SensitivityVariation& variation, double tolerance = 5) {
  SweepSensitivity sweep = sweep_with({});
  sweep.tolerance_percent = tolerance;
  return contradiction(variation, sweep);
}

TEST(Sensitivity, ErrorsOfPredictedRowsAloneCount) {
  SensitivityVariation variation = rates("", 112.2, 88.2);  // +2 %, -2 %
  EXPECT_NEAR(worst_error(variation).value(), 2, 1e-9);
  variation.rows.front().tflops_per_s_per_device = 50;  // fitted: no error of a prediction
  EXPECT_NEAR(worst_error(variation).value(), 2, 1e-9);
}

TEST(Sensitivity, WithinTheToleranceNothingContradicts) {
  EXPECT_THAT(why(rates("", 112.2, 88.2)), IsEmpty());
  EXPECT_THAT(why(rates("", 112.2, 88.2), 1.5), HasSubstr("a rate is off by 2.0 %, allowed 1.5 %"));
}

TEST(Sensitivity, TheOrderCounts) {
  EXPECT_TRUE(order_kept(rates("", 110, 90)));
  EXPECT_FALSE(order_kept(rates("", 99, 90)));
  EXPECT_THAT(why(rates("", 99, 90), 50), HasSubstr("order"));
}

TEST(Sensitivity, WhatTheSweepItselfMissesIsHeldAgainstNobody) {
  SweepSensitivity sweep = sweep_with({});
  sweep.base = rates("", 99, 81);  // -10 %, out of order
  EXPECT_THAT(contradiction(rates("", 99, 82), sweep), IsEmpty());
  EXPECT_THAT(contradiction(rates("", 97, 82), sweep), HasSubstr("allowed 10.5 %"));
}

TEST(Sensitivity, OutcomesCount) {
  SensitivityVariation variation = rates("", 110, 90);
  variation.rows[1].status = "oom";
  variation.rows[1].tflops_per_s_per_device.reset();
  EXPECT_THAT(why(variation), AllOf(HasSubstr("second"), HasSubstr("oom, not ok")));
  SweepSensitivity sweep = sweep_with({});
  sweep.base.rows[1].status = "oom";
  EXPECT_THAT(contradiction(variation, sweep), IsEmpty());
}

TEST(Sensitivity, PeaksCount) {
  SensitivityVariation variation = rates("", 110, 90);
  variation.rows[1].peak_hbm_bytes = 120;
  variation.rows[1].published_peak_bytes = 100;
  EXPECT_THAT(why(variation), HasSubstr("a peak is off by 20.0 %"));
}

TEST(Sensitivity, ForcedMeansThatEveryAlternativeContradicts) {
  const SensitivityVariation good = rates("good", 110, 90), bad = rates("bad", 150, 90);
  SensitivityVariation unsolved{"H1", "unsolved", {}, {}, "no figure fits"};
  const auto verdict = [](const std::vector<SensitivityVariation>& alternatives) {
    const SweepSensitivity sweep = sweep_with(alternatives);
    return verdict_on(sweep.hypotheses[0], sweep);
  };
  EXPECT_EQ(verdict({}), "not tested");
  EXPECT_EQ(verdict({bad, unsolved}), "forced");
  EXPECT_EQ(verdict({bad, good}), "choice");
}

TEST(Sensitivity, SaysWhereTheFileSaysOtherwise) {
  const SweepSensitivity forced = sweep_with({rates("bad", 150, 90)});
  EXPECT_TRUE(agrees_with_status(forced.hypotheses[0], forced));
  const SweepSensitivity choice = sweep_with({rates("good", 110, 90)});
  EXPECT_FALSE(agrees_with_status(choice.hypotheses[0], choice));
  EXPECT_THAT(render_sensitivity({choice}, Format::md), HasSubstr("| NO "));
}

TEST(Sensitivity, OnlyConstantsThatMoveARowAreFreeParameters) {
  SweepSensitivity sweep = sweep_with({});
  sweep.constants = {{"idle_figure", "source", 1, true, {sweep.base}},
                     {"used_figure", "source", 2, true, {rates("", 110.56, 90)}}};
  ASSERT_THAT(constants_in_use(sweep), ::testing::SizeIs(1));
  EXPECT_EQ(constants_in_use(sweep)[0]->figure, "used_figure");
  // One fitted, one constant, one hypothesis.
  EXPECT_THAT(render_sensitivity({sweep}, Format::md), HasSubstr("Free parameters: 3"));
}

TEST(Sensitivity, EveryFormatHasEveryRow) {
  const SweepSensitivity sweep = sweep_with({rates("an alternative", 110, 90)});
  for (const Format format : {Format::md, Format::json, Format::csv})
    EXPECT_THAT(render_sensitivity({sweep}, format),
                AllOf(HasSubstr("an alternative"), HasSubstr("second"), HasSubstr("third")));
  EXPECT_THROW(render_sensitivity({sweep}, Format::html), InputError);
}

}  // namespace
}  // namespace spillway
