// Executed steps beside simulated ones, as pure functions: errors, their distribution, and the
// limits they are held against. Nothing here runs or prints.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace spillway {

// What one step took, seconds. Busy: of the compute lane, by kind of op.
struct StepTimes {
  double seconds = 0;
  double transfers = 0;  // busy time of the copy lanes
  double exposed = 0;    // of it, while compute stood waiting
  std::map<std::string, double> busy;
};

// Steps executed between timings of the reference, and the same schedule simulated as the
// machine was then: all it does itself slower by `slowness` than when it was calibrated.
struct ValidateVisit {
  double slowness = 1;  // reference, median of before, between and after, over the calibration's
  std::vector<StepTimes> executed;
  StepTimes simulated;
};

struct ValidateRecord {
  std::string label;
  // Points of one workload. `link` tells rates apart; empty: moves nothing, comparable with any.
  std::string workload, link;
  double link_bytes_per_second = 0;
  std::vector<ValidateVisit> visits;
  StepTimes calibrated;                          // simulated at the pace of the calibration
  int64_t planned_bytes = 0, changed_bytes = 0;  // changed: highest byte + 1, rounded up as plans
  int64_t live_bytes = 0;                        // highest of the simulated curve
};

// Limits of the issue: fractions of the step, of transfer time.
inline constexpr double median_limit = 0.05, worst_limit = 0.15;
inline constexpr double exposed_of_transfers = 0.15, exposed_of_step = 0.01;

// Error: executed over simulated - 1.
struct Judged {
  double executed = 0, low = 0, high = 0;  // median and quartiles of executed steps
  double simulated = 0;                    // at the pace of the visits, mean
  double error_raw = 0;                    // against the simulation at the pace of the calibration
  double error = 0;                        // normalised: against those at the visits' own pace
  // Quartiles of executed steps at the pace of the calibration: of each its error x calibrated.
  double even_low = 0, even_high = 0;
  double transfers = 0;                                // executed, median
  double exposed_executed = 0, exposed_simulated = 0;  // median; at the visits' pace, mean
  double exposed_allowed = 0;
  bool exposed_fits = false, peak_fits = false, live_fits = false;
  std::map<std::string, double> busy_executed, busy_simulated;  // medians; at the visits' pace
};
// A record has at least one visit of at least one step.
Judged judge(const ValidateRecord& record);

// Two variants of one workload, and link where both move something, whose executed quartiles at one
// pace do not overlap.
struct OrderedPair {
  size_t faster = 0, slower = 0;  // as executed, into the records
  bool right = false;             // the simulation says the same
};
std::vector<OrderedPair> ordered_pairs(const std::vector<ValidateRecord>& records,
                                       const std::vector<Judged>& judged);

struct Distribution {
  double median = 0, worst = 0;  // of absolute errors
  double low = 0, high = 0;      // signed: most negative, most positive
};
Distribution distribution_of(const std::vector<double>& errors);

}  // namespace spillway
