// Rows made by hand for tests of reports. Their figures are invented, apart from the published
// Llama 3.1 405B rates and its step of 41,352.495 TFLOP (MaxText's count).
#pragma once

#include <string>
#include <vector>

#include "reports/row.h"

namespace spillway::testing {

// A result that has every field of `run --json`, numbers null.
nlohmann::json empty_result(const std::string& label, const std::string& kind);

// Four simulated rows joined with the published ones, ours in the same order as those.
std::vector<Row> simulated_rows();
// Six executed rows: device, remat, three offloads, one that does not fit.
std::vector<Row> measured_rows();
std::vector<Row> sample_rows();  // simulated, then measured

}  // namespace spillway::testing
