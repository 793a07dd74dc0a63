// How to repeat a row, where it was obtained, and how to read a report.
#include <algorithm>
#include <array>

#include "harness/error.h"
#include "reports/story.h"

namespace spillway {

namespace {

using nlohmann::json;

std::string option_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

std::string value_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const json& element : value)
    list += (list.empty() ? "" : ",") + value_of(element);
  return list;
}

// "" for an option that is unset, and for --poison, which has no value, when off.
std::string argument(const std::string& key, const json& value) {
  if (value.is_null() || value == "") return "";
  const std::string printed = value_of(value);
  if (key == "poison") return printed == "on" || printed == "true" ? " --poison" : "";
  return " " + option_of(key) + " " + shell_quote(printed);
}

}  // namespace

std::string command_of(const Row& row) {
  static constexpr std::array<const char*, 4> first = {"model", "executor", "machine", "devices"};
  const auto config = row.result.find("config");
  if (config == row.result.end() || !config->is_object()) return "";
  std::string command = "spillway run";
  for (const char* key : first)
    if (config->contains(key)) command += argument(key, config->at(key));
  for (const auto& [key, value] : config->items())
    if (std::find(first.begin(), first.end(), key) == first.end()) command += argument(key, value);
  return command;
}

std::vector<Environment> environments_of(const std::vector<Row>& rows) {
  std::vector<Environment> all;
  for (const Row& row : rows) {
    const auto found = row.result.find("environment");
    if (found == row.result.end() || !found->is_object()) continue;
    Environment environment;
    for (const auto& [key, value] : found->items())
      environment.emplace_back(key, value_of(value));
    if (std::find(all.begin(), all.end(), environment) == all.end())
      all.push_back(std::move(environment));
  }
  return all;
}

std::vector<std::pair<std::string, std::string>> method_notes() {
  return {
      {"measured",
       "Executed for real: every op computed, every copy moved its bytes, on the machine "
       "under \u201cEnvironment\u201d. Step time is the median of the timed steps; runs of a "
       "sweep take turns in random order, so that drift favours none."},
      {"simulated",
       "Nothing is computed: a virtual clock runs the same program, schedule and memory "
       "plan on the figures of a machine file."},
      {"projected", "Measured layers, modelled rest."},
      {"published", "As printed by its source, which is named; blank where it was not published."},
      {"TFLOPs/s/device",
       "MaxText's count: matmuls, and attention halved for the causal mask; forward "
       "and backward; recomputation not counted. \u201cFull square\u201d counts "
       "attention without halving."},
      {"executed", "Matmul and attention work really done in a step, recomputation included."},
      {"error", "(ours \u2212 published) / published."},
      {"exposed, hidden",
       "Exposed: the compute lane stood waiting for a host copy. Hidden: the rest of "
       "the copy lanes' busy time, as a share of it. Writes go from HBM to host "
       "memory, reads come back."},
      {"peak HBM",
       "Of the static memory plan, known before the run. GiB = 2^30 bytes; "
       "TFLOP = 10^12 operations."},
      {"blank", "Not known, not published or not finite; never zero."},
  };
}

}  // namespace spillway
