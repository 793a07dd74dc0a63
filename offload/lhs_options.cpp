// Rules and limits as text.
#include "offload/lhs_options.h"

#include <algorithm>
#include <charconv>

#include "harness/error.h"

namespace spillway {

namespace {

struct NamedValue {
  std::string name, value;
};

// The parts of "name=value,name=value"; each name once.
std::vector<NamedValue> named_values(const std::string& option, const std::string& list) {
  std::vector<NamedValue> found;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string part = list.substr(begin, end - begin);
    const size_t equals = part.find('=');
    if (equals == std::string::npos)
      throw InputError(
          text(option, ": found '", part, "' in '", list, "', expected name=value,..."));
    const std::string name = part.substr(0, equals);
    const bool twice = std::any_of(found.begin(), found.end(),
                                   [&](const NamedValue& other) { return other.name == name; });
    if (twice)
      throw InputError(text(option, ": found ", name, " twice in '", list, "', expected it once"));
    found.push_back({name, part.substr(equals + 1)});
    begin = end + 1;
  }
  return found;
}

const LhsRuleInfo& rule_named(const std::string& name, const std::string& found = "") {
  for (const LhsRuleInfo& rule : lhs_rule_table())
    if (name == rule.name) return rule;
  std::string known;
  for (const LhsRuleInfo& rule : lhs_rule_table())
    known += text(known.empty() ? "" : ", ", rule.name);
  throw InputError(
      text("--lhs-rule: found '", found.empty() ? name : found, "', expected one of ", known));
}

int64_t parse_limit(const std::string& value, const std::string& list) {
  if (value == "unlimited") return 0;
  int64_t limit = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), limit);
  if (error != std::errc() || end != value.data() + value.size() || limit < 1)
    throw InputError(text("--lhs-limit: found '", value, "' in '", list,
                          "', expected a whole number from 1 or unlimited"));
  return limit;
}

std::string limit_text(int64_t limit) { return limit == 0 ? "unlimited" : std::to_string(limit); }

}  // namespace

bool is_on(const LhsRules& rules, const std::string& name) {
  const LhsRuleInfo& rule = rule_named(name);
  const auto found = rules.find(name);
  return found == rules.end() ? rule.on_by_default : found->second;
}

LhsRules parse_lhs_rules(const std::string& list) {
  LhsRules rules;
  for (const auto& [name, value] : named_values("--lhs-rule", list)) {
    const std::string pair = text(name, "=", value);
    const LhsRuleInfo& rule = rule_named(name, pair);
    if (value != "on" && value != "off")
      throw InputError(text("--lhs-rule: found '", pair, "', expected on or off"));
    if (rule.on_by_default != (value == "on")) rules[name] = value == "on";
  }
  return rules;
}

std::string text_of(const LhsRules& rules) {
  std::string list;
  for (const auto& [name, on] : rules)
    list += text(list.empty() ? "" : ",", name, "=", on ? "on" : "off");
  return list;
}

LhsLimits parse_lhs_limits(const std::string& list) {
  LhsLimits limits;
  for (const auto& [name, value] : named_values("--lhs-limit", list)) {
    if (name != "collectives" && name != "copies")
      throw InputError(
          text("--lhs-limit: found '", name, "' in '", list, "', expected collectives or copies"));
    (name == "copies" ? limits.copies : limits.collectives) = parse_limit(value, list);
  }
  return limits;
}

std::string text_of(const LhsLimits& limits) {
  return text("collectives=", limit_text(limits.collectives),
              ",copies=", limit_text(limits.copies));
}

}  // namespace spillway
