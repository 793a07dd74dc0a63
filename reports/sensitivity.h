// What happens to the rows of a sweep when a hypothesis or an assumed constant is another: verdicts
// by rules, and prints. The runs are the sweeps' (sweeps/sensitivity.h).
#pragma once

#include <string>
#include <vector>

#include "reports/report.h"
#include "reports/text.h"

namespace spillway {

// One row under one variation.
struct SensitivityRow {
  std::string label;
  std::string status, published_outcome;  // "ok", "oom", ...; the latter empty where none is known
  Number tflops_per_s_per_device, published;
  Number peak_hbm_bytes, published_peak_bytes;
  bool fitted = false;           // the one that the figure was fitted on: it has no error
  Number error_percent() const;  // of the rate
  Number peak_error_percent() const;
};

struct SensitivityVariation {
  std::string of;     // id of a hypothesis, name of a figure; empty: the sweep as it is
  std::string label;  // "bf16 projections", "0.576 (-20 %)"
  Number fitted;      // the sweep's figure, solved again
  std::vector<SensitivityRow> rows;
  std::string failure;  // why there are no rows
};

struct SensitivityHypothesis {
  std::string id, setting, status;
  std::vector<SensitivityVariation> alternatives;
};

struct SensitivityConstant {
  std::string figure, source;
  double value = 0;
  bool default_range = true;                     // 20 % either way, for want of a stated range
  std::vector<SensitivityVariation> variations;  // none: no other value is legal
};

// What a matmul reaches in one number format, in FLOP/s.
struct PrecisionRate {
  std::string precision;
  double peak = 0, machine = 0, fitted = 0;  // machine: with the efficiency of the machine file
};

struct SweepSensitivity {
  std::string name;
  double tolerance_percent = 5;
  std::string fitted_on;  // label, empty: nothing is fitted
  SensitivityVariation base;
  std::vector<SensitivityHypothesis> hypotheses;
  std::vector<SensitivityConstant> constants;
  double machine_efficiency = 0;
  std::string efficiency_source;
  std::vector<PrecisionRate> rates;
  // The rows with the figure that another of the sweeps was fitted to; `of` is its name.
  std::vector<SensitivityVariation> transfers;
};

// Whether rows with a published rate come in the published order.
bool order_kept(const SensitivityVariation& variation);
// The largest error of a predicted row in percent, its sign dropped; none where none is published.
Number worst_error(const SensitivityVariation& variation);
Number worst_peak_error(const SensitivityVariation& variation);
// Of a row's rate over its rate in the sweep as it is, in percent; none where one of them has none.
Number change_percent(const SensitivityRow& row, const SweepSensitivity& sweep);
// Why a variation contradicts what was published, or empty. It must keep the order (if the sweep
// itself does), every published outcome that the sweep itself has right, and the worst error of
// rates and of peaks within the tolerance or, where that is larger, half a point
// above the sweep's own.
std::string contradiction(const SensitivityVariation& variation, const SweepSensitivity& sweep);

// "forced": every alternative contradicts; "choice": some does not; "not tested": there is none.
std::string verdict_on(const SensitivityHypothesis& hypothesis, const SweepSensitivity& sweep);
// Whether the verdict is what the file says of it ("forced by the published rows").
bool agrees_with_status(const SensitivityHypothesis& hypothesis, const SweepSensitivity& sweep);

// Assumed constants that move a rate, a peak or an outcome of at least one row.
std::vector<const SensitivityConstant*> constants_in_use(const SweepSensitivity& sweep);

// md, json or csv (html: InputError).
std::string render_sensitivity(const std::vector<SweepSensitivity>& sweeps, Format format);

}  // namespace spillway
