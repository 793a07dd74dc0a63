// What a report derives from rows, as pure functions; empty where a figure it needs is missing or
// not finite. Printing is elsewhere.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/row.h"
#include "reports/text.h"

namespace spillway {

// Reads of one result: `path` is keys joined by dots ("step_seconds.median").
Number figure_at(const Row& row, std::string_view path);
std::string text_at(const Row& row, std::string_view path);  // "" when absent, null or not a text
// A value of the row's config as text; "" when absent or null.
std::string config_of(const Row& row, std::string_view key);
bool config_on(const Row& row, std::string_view key);  // "on" or true
std::string kind_of(const Row& row);

// Status ok and a finite rate: the row may be the best, the first, a reference. A row that failed
// (its values differed, say) may still show its times.
bool counts(const Row& row);

// (value - reference) / |reference| in percent.
Number percent_over(Number value, Number reference);
// Of TFLOPs/s/device against the published row.
Number error_percent(const Row& row);
// True for the row that the sweep's one figure was fitted on: its error is none by construction.
bool is_fitted_row(const Row& row);

// All host copies of a step in one direction, "d2h" (writes) or "h2d" (reads).
struct Traffic {
  double bytes = 0, seconds = 0, exposed = 0;
};
std::optional<Traffic> traffic_of(const Row& row, std::string_view direction);
Number transfer_seconds(const Row& row);  // both directions, copy-lane busy time
// Share of transfer time that the compute lane did not stand waiting for, in percent.
Number hidden_percent(Number transfer, Number exposed);
Number hidden_percent(const Row& row);

// Step time of a row over that of another. low and high: the widest range that the minima and
// maxima of both allow.
struct Ratio {
  double median = 0, low = 0, high = 0;
};
std::optional<Ratio> step_ratio(const Row& row, const Row& base);

// Seconds a published row needs for a step: the FLOPs our row counts over the published rate.
Number published_step_seconds(const Row& row);

// Rows that may be compared with each other: same kind, model, devices, batch and sequence.
struct Group {
  std::string kind;
  std::vector<const Row*> rows;
  const Row* first = nullptr;  // the first with a rate; what "over the first row" refers to
  const Row* remat = nullptr;  // labelled "remat", else the first under policy `full`
  const Row* base = nullptr;   // remat, or where a group has none that of another batch
};
// Measured groups first, then projected, then simulated; within a kind in order of appearance, as
// are the rows of a group, those without a result (oom, failed) after the others.
// Pointers into `rows`.
std::vector<Group> groups_of(const std::vector<Row>& rows);
bool has_published(const Group& group);  // at least one row with a published rate

// TFLOPs/s/device of a proxy's row over that of its group's base, ours and as published of what the
// two stand for. A rate counts tokens, so the base may have another batch. low and high as in Ratio.
struct RateRatio {
  Ratio ours;
  Number published;
};
std::optional<RateRatio> proxy_ratio(const Row& row, const Group& group);

// "A - B" of two rows of a group in seconds a step, ours beside published.
struct Difference {
  const Row* minuend = nullptr;
  const Row* subtrahend = nullptr;
  double ours = 0, published = 0;
};
// The published fastest row against the first one, then every other row against the fastest. Rows
// without a rate of ours and a published one are left out.
std::vector<Difference> differences_of(const Group& group);

// Rows with a rate of ours and a published one, fastest first, by either.
struct Order {
  std::vector<const Row*> published, ours;
  bool same() const { return published == ours; }
};
Order order_of(const Group& group);

}  // namespace spillway
