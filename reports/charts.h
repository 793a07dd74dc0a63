// The pictures of the HTML report: each takes rows and gives HTML with inline SVG, or nothing where
// the rows lack what it shows.
#pragma once

#include <string>

#include "reports/figures.h"

namespace spillway {

inline constexpr double chart_width = 1080;  // user units of every full-width picture

// TFLOPs/s/device, ours above published; a whisker shows the range of our steps.
std::string rate_chart(const Group& group);
// Rate over the group's first row in percent, ours above published: the effect under study.
std::string gain_chart(const Group& group);
// Step time over that of the remat row, median and range.
std::string ratio_chart(const Group& group);

// Rate against peak device memory, one picture for the rows of a model that differ in micro batch:
// groups do not mix these.
std::string scatter_charts(const std::vector<Row>& rows);

// Peak device memory by role, host memory beside it.
std::string peak_chart(const Group& group);
// Live bytes over the step by role, a small picture a row on one scale.
std::string memory_curves(const Group& group);

// Where the compute lane's step goes: seconds by kind of op, waiting, idle.
std::string time_chart(const Group& group);
// All lanes during one forward and one backward layer, a picture a row on one scale.
std::string timelines(const Group& group);

}  // namespace spillway
