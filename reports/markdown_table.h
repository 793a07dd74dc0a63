// A padded Markdown table, readable in a terminal.
#pragma once

#include <string>
#include <vector>

namespace spillway {

struct MarkdownTable {
  std::vector<std::vector<std::string>> rows;  // the first is the header; cells are escaped already
  std::vector<bool> right;                     // per column: numbers stand at the right
};
std::string print(const MarkdownTable& table);

}  // namespace spillway
