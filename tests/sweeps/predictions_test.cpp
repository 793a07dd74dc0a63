// Rows nobody published: their sweeps say what is predicted, and differ from the published ones in
// that alone.

#include <gmock/gmock.h>

#include "sweeps/sweep_file.h"

namespace spillway {
namespace {

// What a prediction is about; all else is a setting of the published sweep.
Point settings_of(Point point) {
  const Point none;
  point.machine = none.machine;
  point.link = none.link;
  point.policy = none.policy;
  point.lhs = none.lhs;
  point.pipeline = none.pipeline;
  return point;
}

void expect_same_settings(const std::string& predictions, const std::string& published) {
  const Sweep ours = load_sweep(predictions), theirs = load_sweep(published);
  for (const SweepPoint& point : ours.points)
    EXPECT_EQ(to_json(settings_of(point.point)), to_json(settings_of(theirs.points.front().point)))
        << point.label;
  // Of the same kind: a figure is fitted on the same row, or none is.
  const auto fitted_on = [](const Sweep& sweep) -> std::string {
    const std::optional<Calibration>& calibration = sweep.headers.front().calibration;
    if (!calibration) return "";
    for (const SweepPoint& point : sweep.points)
      if (point.label == calibration->on) return calibration->figure + " " + point.published;
    return "no such row";
  };
  EXPECT_EQ(fitted_on(ours), fitted_on(theirs));
}

TEST(Predictions, HaveTheSettingsOfThePublishedSweeps) {
  expect_same_settings("llama3.1-405b-predictions", "llama3.1-405b-published");
  expect_same_settings("deepseek-v3-predictions", "deepseek-v3-published");
}

TEST(Predictions, CoverBothWorkloadsOnPcieAndVeraRubin) {
  std::map<std::string, int> variants;  // of LHS and pipelining, with offload
  bool remat_with_lhs = false, lhs_alone = false;
  for (const SweepPoint& point : load_sweep("predictions").points) {
    const Point& p = point.point;
    const bool offloads = p.policy != "full";
    if (offloads) ++variants[p.model + (p.link.empty() ? " " + p.machine : " PCIe")];
    if (p.model != "deepseek-v3" || p.machine != "gb200-nvl72" || !p.link.empty()) continue;
    remat_with_lhs |= !offloads && p.lhs;
    lhs_alone |= offloads && p.lhs && !p.pipeline;
  }
  for (const std::string model : {"llama3.1-405b", "deepseek-v3"})
    for (const std::string where : {" PCIe", " vera-rubin-nvl144"})
      EXPECT_GE(variants[model + where], 3) << model << where;
  EXPECT_TRUE(remat_with_lhs && lhs_alone);
}

}  // namespace
}  // namespace spillway
