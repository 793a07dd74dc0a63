// What is drawn in which colour, and in which order it is stacked. The colours themselves are CSS
// variables of the same name (html_style.cpp).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

struct Swatch {
  const char* key;          // of the result's JSON, or of a category
  const char* style_class;  // "f-..."
  const char* label;
};

// Roles of memory, from the bottom of a stack: what is always there first.
std::span<const Swatch> role_swatches();

// What a lane spends time on.
std::span<const Swatch> time_swatches();
// The time swatch of an op kind; `other` for one that is not in the table.
const Swatch& time_swatch_of_op(std::string_view op_kind);
const Swatch& time_swatch(std::string_view key);

// The two sides of a comparison: ours, published.
std::vector<const Swatch*> comparison_swatches();

// An HTML list of colours and labels.
std::string legend(const std::vector<const Swatch*>& swatches);

}  // namespace spillway
