// spillway capacity: for each policy the largest micro batch that fits, what stops the next one,
// and the host bandwidth it needs. Both prints are of one object (capacity_result.cpp).
#include <cinttypes>
#include <cstdio>
#include <iostream>

#include "sweeps/capacity.h"
#include "sweeps/cli.h"

namespace spillway {

namespace {

using nlohmann::json;

std::string bytes_of(const json& value) {
  const double bytes = value.get<double>();
  return bytes < 0 ? "-" + bytes_text(-bytes) : bytes_text(bytes);
}

// GB/s, or "-" for what a machine does not say and where nothing is copied.
std::string rate(const json& value) {
  if (value.is_null() || value == 0) return "-";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f", value.get<double>() / 1e9);
  return buffer;
}

std::string largest_text(const json& row) {
  const auto largest = row["largest_micro_batch"].get<int64_t>();
  if (largest == 0) return "none";
  return std::to_string(largest) + (largest == most_micro_batch ? " or more" : "");
}

void print_head(const json& result) {
  std::printf("%s on %s", result["model"].get<std::string>().c_str(),
              result["machine"].get<std::string>().c_str());
  const json defaults = to_json(Point{});
  for (const auto& [key, value] : result["config"].items())
    if (key != "model" && key != "machine" && value != defaults.value(key, json(nullptr)))
      std::printf(", %s %s", key.c_str(), value.get<std::string>().c_str());
  const json& row = result["policies"].front();
  std::printf("\na device has %s usable HBM and %s of host memory\n\n",
              bytes_of(row["device_capacity_bytes"]).c_str(),
              bytes_of(row["host_capacity_bytes"]).c_str());
}

void print_table(const json& policies) {
  std::printf("%-34s %8s %12s %12s %12s %9s %9s %9s %10s\n", "policy", "largest", "peak HBM",
              "left", "host", "d2h GB/s", "h2d GB/s", "step, s", "tokens/s");
  for (const json& row : policies) {
    std::printf("%-34s %8s", row["policy"].get<std::string>().c_str(), largest_text(row).c_str());
    if (const json& largest = row["largest"]; !largest.is_null()) {
      const json& run = row["simulated"];
      std::printf(
          " %12s %12s %12s %9s %9s %9.3f %10.1f", bytes_of(largest["peak_hbm_bytes"]).c_str(),
          bytes_of(largest["device_bytes_left"]).c_str(), bytes_of(largest["host_bytes"]).c_str(),
          rate(run["d2h"]["bytes_per_second"]).c_str(),
          rate(run["h2d"]["bytes_per_second"]).c_str(), run["step_seconds"].get<double>(),
          run["tokens_per_s_per_device"].get<double>());
    }
    std::printf("\n");
  }
}

void print_tried(const char* label, const json& search) {
  std::printf("  %-13s", label);
  const char* separator = "";
  for (const json& trial : search["tried"]) {
    const bool host = trial["host_bytes_left"].get<double>() < 0;
    const bool device = trial["device_bytes_left"].get<double>() < 0;
    std::printf("%s%" PRId64 " %s (HBM %s%s%s)", separator, trial["micro_batch"].get<int64_t>(),
                device ? "oom"
                : host ? "host_oom"
                       : "fits",
                bytes_of(trial["device_bytes_left"]).c_str(), host ? ", host " : "",
                host ? bytes_of(trial["host_bytes_left"]).c_str() : "");
    separator = ", ";
  }
  std::printf("\n");
}

void print_entries(const char* label, const json& entries) {
  std::printf("  %-13s", label);
  const char* separator = "";
  for (const json& entry : entries) {
    std::printf("%s%s %s", separator, entry["name"].get<std::string>().c_str(),
                bytes_of(entry["bytes"]).c_str());
    separator = ", ";
  }
  std::printf("\n");
}

void print_peak(const json& peak) {
  std::printf("  %-13s", "its peak");
  const char* separator = "";
  for (const auto& [role, bytes] : peak.items()) {
    if (bytes.get<double>() == 0) continue;
    std::printf("%s%s %s", separator, role.c_str(), bytes_of(bytes).c_str());
    separator = " + ";
  }
  std::printf("\n");
}

void print_stop(const json& next) {
  for (const json& by : next["by"]) {
    const std::string space = by;
    const bool device = space == "device";
    std::printf("  %-13s%" PRId64 " needs %s of %s memory: %s too much\n", "next",
                next["micro_batch"].get<int64_t>(),
                bytes_of(next[device ? "peak_hbm_bytes" : "host_bytes"]).c_str(), space.c_str(),
                bytes_text(-next[space + "_bytes_left"].get<double>()).c_str());
  }
  print_peak(next["peak_hbm_by_role"]);
  print_entries("largest", next["largest_at_peak"]);
  if (next["host_bytes_left"].get<double>() < 0)
    print_entries("on the host", next["largest_on_host"]);
}

void print_need(const json& run, const json& link) {
  if (run["d2h"]["bytes_per_step"].get<int64_t>() == 0) return;
  for (const std::string direction : {"d2h", "h2d"}) {
    const json& need = run[direction];
    std::printf(
        "  %-13s%s a step: %s GB/s in the busiest loop, %s over the step; a host %s. Has %s, "
        "a host %s\n",
        direction.c_str(), bytes_of(need["bytes_per_step"]).c_str(),
        rate(need["bytes_per_second"]).c_str(), rate(need["step_bytes_per_second"]).c_str(),
        rate(need["host_bytes_per_second"]).c_str(),
        rate(link[direction + "_bytes_per_second"]).c_str(),
        rate(link["host_" + direction + "_bytes_per_second"]).c_str());
  }
  std::printf("  %-13s%.3f s of a step of %.3f s; %.3f s if copies cost nothing\n", "exposed",
              run["exposed_transfer_seconds"].get<double>(), run["step_seconds"].get<double>(),
              run["step_seconds_if_hidden"].get<double>());
}

void print_policy(const json& row, const json& link) {
  std::printf("\n%s", row["policy"].get<std::string>().c_str());
  for (const json& same : row["same_as"])
    std::printf(" = %s", same.get<std::string>().c_str());
  std::printf(": largest %s\n", largest_text(row).c_str());
  print_tried("tried", row);
  if (const json& other = row["at_default_state_bytes"]; !other.is_null())
    print_tried("at 4,4,4,4", other);
  if (!row["next"].is_null()) print_stop(row["next"]);
  if (!row["simulated"].is_null()) print_need(row["simulated"], link);
}

}  // namespace

int execute(const CapacityCommand& command) {
  verify_point(command.point);
  std::vector<AskedPolicy> policies;
  for (const std::string& policy : command.policies)
    policies.push_back({policy, {}});
  if (policies.empty()) policies = distinct_presets(command.point);
  const json result = capacity_result(command.point, policies);
  for (const json& warning : result["warnings"])
    std::cerr << "warning: " << warning.get<std::string>() << "\n";
  if (!command.json.empty()) {
    write_json(command.json, result);
    return 0;
  }
  print_head(result);
  print_table(result["policies"]);
  for (const json& row : result["policies"])
    print_policy(row, result["link"]);
  return 0;
}

}  // namespace spillway
