// Verdicts on variations.
#include "reports/sensitivity.h"

#include <algorithm>
#include <cmath>

#include "harness/error.h"

namespace spillway {

Number SensitivityRow::error_percent() const {
  if (!tflops_per_s_per_device || !published) return std::nullopt;
  return 100 * (*tflops_per_s_per_device / *published - 1);
}

Number SensitivityRow::peak_error_percent() const {
  if (!peak_hbm_bytes || !published_peak_bytes) return std::nullopt;
  return 100 * (*peak_hbm_bytes / *published_peak_bytes - 1);
}

bool order_kept(const SensitivityVariation& variation) {
  for (const SensitivityRow& a : variation.rows)
    for (const SensitivityRow& b : variation.rows) {
      if (!a.error_percent() || !b.error_percent() || *a.published <= *b.published) continue;
      if (*a.tflops_per_s_per_device <= *b.tflops_per_s_per_device) return false;
    }
  return true;
}

Number worst_error(const SensitivityVariation& variation) {
  Number worst;
  for (const SensitivityRow& row : variation.rows)
    if (const Number error = row.error_percent(); error && !row.fitted)
      worst = std::max(worst.value_or(0), std::abs(*error));
  return worst;
}

Number worst_peak_error(const SensitivityVariation& variation) {
  Number worst;
  for (const SensitivityRow& row : variation.rows)
    if (const Number error = row.peak_error_percent())
      worst = std::max(worst.value_or(0), std::abs(*error));
  return worst;
}

namespace {

// Percent that a variation may be worse than a sweep that itself is beyond the tolerance.
constexpr double own_allowance = 0.5;
constexpr double rounding_percent = 1e-9;

// What was published to run runs, what ran out of memory runs out of memory.
bool outcome_right(const SensitivityRow& row) {
  if (row.published_outcome != "ok" && row.published_outcome != "oom") return true;
  return row.status == row.published_outcome;
}

const SensitivityRow* row_labelled(const SensitivityVariation& variation,
                                   const std::string& label) {
  for (const SensitivityRow& row : variation.rows)
    if (row.label == label) return &row;
  return nullptr;
}

std::string wrong_outcomes(const SensitivityVariation& variation,
                           const SensitivityVariation& base) {
  std::string wrong;
  for (const SensitivityRow& row : variation.rows) {
    const SensitivityRow* as_is = row_labelled(base, row.label);
    if (outcome_right(row) || (as_is != nullptr && !outcome_right(*as_is))) continue;
    wrong += text(wrong.empty() ? "" : ", ", "\u201c", row.label, "\u201d is ", row.status,
                  ", not ", row.published_outcome);
  }
  return wrong;
}

bool differs(Number a, Number b) {
  if (a.has_value() != b.has_value()) return true;
  return a && std::abs(*a - *b) > 1e-7 * std::abs(*b);
}

bool moves_a_row(const SensitivityVariation& variation, const SensitivityVariation& base) {
  if (!variation.failure.empty() || differs(variation.fitted, base.fitted)) return true;
  return std::any_of(variation.rows.begin(), variation.rows.end(), [&](const SensitivityRow& row) {
    const SensitivityRow* as_is = row_labelled(base, row.label);
    return as_is == nullptr || row.status != as_is->status ||
           differs(row.tflops_per_s_per_device, as_is->tflops_per_s_per_device) ||
           differs(row.peak_hbm_bytes, as_is->peak_hbm_bytes);
  });
}

}  // namespace

Number change_percent(const SensitivityRow& row, const SweepSensitivity& sweep) {
  const SensitivityRow* as_is = row_labelled(sweep.base, row.label);
  if (as_is == nullptr || !row.tflops_per_s_per_device || !as_is->tflops_per_s_per_device)
    return std::nullopt;
  return 100 * (*row.tflops_per_s_per_device / *as_is->tflops_per_s_per_device - 1);
}

std::string contradiction(const SensitivityVariation& variation, const SweepSensitivity& sweep) {
  if (!variation.failure.empty()) return variation.failure;
  if (const std::string wrong = wrong_outcomes(variation, sweep.base); !wrong.empty()) return wrong;
  if (order_kept(sweep.base) && !order_kept(variation)) return "not in the published order";
  const auto beyond = [&](const char* what, Number worst, Number own) -> std::string {
    const double allowed = std::max(sweep.tolerance_percent, own.value_or(0) + own_allowance);
    if (worst.value_or(0) <= allowed + rounding_percent) return "";
    return text(what, " is off by ", fixed(worst, 1), " %, allowed ", fixed(allowed, 1), " %");
  };
  const std::string rate = beyond("a rate", worst_error(variation), worst_error(sweep.base));
  if (!rate.empty()) return rate;
  return beyond("a peak", worst_peak_error(variation), worst_peak_error(sweep.base));
}

std::string verdict_on(const SensitivityHypothesis& hypothesis, const SweepSensitivity& sweep) {
  if (hypothesis.alternatives.empty()) return "not tested";
  const bool all =
      std::all_of(hypothesis.alternatives.begin(), hypothesis.alternatives.end(),
                  [&](const auto& tried) { return !contradiction(tried, sweep).empty(); });
  return all ? "forced" : "choice";
}

bool agrees_with_status(const SensitivityHypothesis& hypothesis, const SweepSensitivity& sweep) {
  const std::string verdict = verdict_on(hypothesis, sweep);
  if (verdict == "not tested") return true;
  // An assumption is a choice that no published row bears on.
  const bool said_forced = hypothesis.status.starts_with("forced");
  return (verdict == "forced") == said_forced;
}

std::vector<const SensitivityConstant*> constants_in_use(const SweepSensitivity& sweep) {
  std::vector<const SensitivityConstant*> used;
  for (const SensitivityConstant& constant : sweep.constants)
    if (std::any_of(constant.variations.begin(), constant.variations.end(),
                    [&](const auto& tried) { return moves_a_row(tried, sweep.base); }))
      used.push_back(&constant);
  return used;
}

}  // namespace spillway
