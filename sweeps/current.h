// The rows of a sweep file as it says now: a store keeps rows of points that the file no longer has.
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "reports/row.h"
#include "sweeps/sweep_file.h"

namespace spillway {

// Sets what the sweep file says of a point's result and its key does not: "label", "published", "stands_for",
// "sweep" (title and hypotheses).
void set_heading(nlohmann::json& result, const SweepPoint& point, const Sweep& sweep);

// Those of `rows` (as a store wrote them) that are of a point of the sweep, in their order and
// under the sweep's headings.
std::vector<Row> current_rows(const Sweep& sweep, const std::vector<Row>& rows);

}  // namespace spillway
