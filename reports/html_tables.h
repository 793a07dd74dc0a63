// The tables and lists of the HTML report, as HTML fragments; empty where there is nothing to show.
#pragma once

#include <string>
#include <vector>

#include "reports/columns.h"

namespace spillway {

std::string html_results(View view, const Group& group);
std::string html_notes(const Group& group);
std::string html_differences(const Group& group);
std::string html_fates(const Group& group);  // which activation went where, per row
std::string html_hypotheses(const std::vector<Row>& rows);
std::string html_sources(const std::vector<Row>& rows);  // of published rows
std::string html_environment(const std::vector<Row>& rows);
std::string html_commands(const std::vector<Row>& rows);
std::string html_method();

}  // namespace spillway
