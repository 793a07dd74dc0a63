// What latency hiding can be told: rules by name, limits of what is open at once, hints for ops.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

// A comparison rule in XLA's order (mechanisms.md 3.6), or a setting of the rules (lower-case name).
struct LhsRuleInfo {
  const char* name;
  bool on_by_default;
  const char* needs;  // the hint without which it never decides; "" for none
  const char* meaning;
};
const std::vector<LhsRuleInfo>& lhs_rule_table();

// Rules that are not as by default.
using LhsRules = std::map<std::string, bool>;
bool is_on(const LhsRules& rules, const std::string& name);

// "NAME=off,OTHER=on". Throws InputError for a name that is no rule's, a rule named twice, or
// anything but on and off. text_of() gives the same text back, without what is so by default.
LhsRules parse_lhs_rules(const std::string& text);
std::string text_of(const LhsRules& rules);

// How many of a kind may be between start and done at once; 0: any number. XLA's defaults:
// parallel_collective_overlap_limit 1; slices to and from the host unlimited since PR 44359, before
// that they counted as async computes, of which it allows 2 (mechanisms.md 3.5).
struct LhsLimits {
  int64_t collectives = 1, copies = 0;
  friend bool operator==(const LhsLimits&, const LhsLimits&) = default;
};

// "collectives=1,copies=unlimited", either or both. Throws InputError.
LhsLimits parse_lhs_limits(const std::string& text);
std::string text_of(const LhsLimits& limits);

// What XLA reads from attributes of an instruction; no workload sets any. Of an async op the start
// carries what forces it, the done what its resource is.
struct OpHint {
  bool force_early = false, force_delay = false, force_delay_after_target = false;
  int force_delay_priority = 0;
  std::optional<double> preference;
  bool non_extendable = false;  // its resource is released as soon as its time is over
  bool serial = false;          // its resource is best held by one op at a time
  bool window = false;          // an async copy on the device, beside which compute-bound ops run
  bool selective = false;       // an async op that only `valuable` ops should run beside
  bool valuable = false;
};

}  // namespace spillway
