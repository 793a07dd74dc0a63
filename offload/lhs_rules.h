// The comparison rules as a table. Private to offload/.
#pragma once

#include <vector>

#include "offload/lhs.h"

namespace spillway {

// A rule prefers a (positive), b (negative) or neither (0); both are ready nodes. "Prefers" means:
// nearer the end. Settings have no comparison.
struct LhsRule {
  LhsRuleInfo info;
  int (*compare)(const LhsState&, int a, int b);
};
const std::vector<LhsRule>& lhs_rules();

}  // namespace spillway
