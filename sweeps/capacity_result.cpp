// The JSON object of a capacity search.
#include <algorithm>
#include <utility>

#include "sweeps/capacity.h"
#include "sweeps/machines.h"

namespace spillway {

namespace {

using nlohmann::json;

json entries_json(const std::vector<Trial::Entry>& entries) {
  json list = json::array();
  for (const Trial::Entry& entry : entries)
    list.push_back({{"name", entry.name}, {"role", name_of(entry.role)}, {"bytes", entry.bytes}});
  return list;
}

// What is left of each capacity; negative: missing.
json trial_json(const Trial& trial, const Capacity& capacity) {
  return {{"micro_batch", trial.micro_batch},
          {"fits", trial.fits},
          {"peak_hbm_bytes", trial.device_bytes},
          {"host_bytes", trial.host_bytes},
          {"device_bytes_left", capacity.device - trial.device_bytes},
          {"host_bytes_left", capacity.host - trial.host_bytes}};
}

json peak_json(const Trial& trial) {
  json peak;
  for (int role = 0; role < role_count; ++role)
    peak[name_of(static_cast<Role>(role))] = trial.peak_by_role[static_cast<size_t>(role)];
  peak["holes"] = trial.holes;
  return peak;
}

// Why the micro batch above the largest does not fit.
json stopped_json(const Trial& trial, const Capacity& capacity) {
  json stopped = trial_json(trial, capacity);
  stopped["by"] = json::array();
  if (trial.device_bytes > capacity.device) stopped["by"].push_back("device");
  if (trial.host_bytes > capacity.host) stopped["by"].push_back("host");
  stopped["peak_hbm_by_role"] = peak_json(trial);
  stopped["largest_at_peak"] = entries_json(trial.largest_device);
  stopped["largest_on_host"] = entries_json(trial.largest_host);
  return stopped;
}

json search_json(const CapacityAnswer& answer) {
  json tried = json::array();
  for (const Trial& trial : answer.trials)
    tried.push_back(trial_json(trial, answer.capacity));
  json result = {{"largest_micro_batch", answer.largest},
                 {"tried", tried},
                 {"device_capacity_bytes", answer.capacity.device},
                 {"host_capacity_bytes", answer.capacity.host}};
  const Trial* const fits = answer.at(answer.largest);
  const Trial* const next = answer.at(answer.largest + 1);
  result["largest"] = nullptr;
  if (fits) {
    result["largest"] = trial_json(*fits, answer.capacity);
    result["largest"]["peak_hbm_by_role"] = peak_json(*fits);
  }
  result["next"] = next ? stopped_json(*next, answer.capacity) : json(nullptr);
  return result;
}

// Figures a machine need not have are null.
json optional_figure(const Machine& machine, const char* key) {
  const auto found = machine.figures.find(key);
  return found == machine.figures.end() ? json(nullptr) : json(found->second.value);
}

// The link of a device while all copy, and of one host processor: its devices together, or its
// memory, which both directions share, if that is less.
json machine_json(const Machine& machine) {
  json link = json::object();
  const json devices = optional_figure(machine, "host_devices");
  const json memory = optional_figure(machine, "host_bandwidth");
  for (const std::string direction : {"d2h", "h2d"}) {
    const double rate = machine.figure("link_" + direction + "_all");
    link[direction + "_bytes_per_second"] = rate;
    json host = nullptr;
    if (!devices.is_null()) host = rate * devices.get<double>();
    if (!host.is_null() && !memory.is_null())
      host = std::min(host.get<double>(), memory.get<double>());
    link["host_" + direction + "_bytes_per_second"] = host;
  }
  link["devices_per_host"] = devices;
  return link;
}

// Rates of one direction, for a device and for a host with all its devices, and over the machine's.
json need_json(const CopyNeed& need, const json& link, const std::string& direction) {
  const json& devices = link["devices_per_host"];
  const json& host_rate = link["host_" + direction + "_bytes_per_second"];
  const auto per_host = [&](double rate) {
    return devices.is_null() ? json(nullptr) : json(rate * devices.get<double>());
  };
  const json of_the_host =
      host_rate.is_null()
          ? json(nullptr)
          : json(per_host(need.busiest_bytes_per_second).get<double>() / host_rate.get<double>());
  return {{"bytes_per_step", need.bytes},
          {"bytes_per_second", need.busiest_bytes_per_second},
          {"step_bytes_per_second", need.step_bytes_per_second},
          {"host_bytes_per_second", per_host(need.busiest_bytes_per_second)},
          {"host_step_bytes_per_second", per_host(need.step_bytes_per_second)},
          {"of_the_link",
           need.busiest_bytes_per_second / link[direction + "_bytes_per_second"].get<double>()},
          {"of_the_host", of_the_host}};
}

json simulated_json(const HostNeed& need, const json& link) {
  return {{"step_seconds", need.step_seconds},
          {"tokens_per_s_per_device", need.tokens_per_second},
          {"exposed_transfer_seconds", need.exposed_seconds},
          {"step_seconds_if_hidden", need.step_seconds_if_hidden},
          {"d2h", need_json(need.d2h, link, "d2h")},
          {"h2d", need_json(need.h2d, link, "h2d")}};
}

json policy_json(Point point, const AskedPolicy& policy, const json& link) {
  point.policy = policy.name;
  const CapacityAnswer answer = find_capacity(point);
  json result = search_json(answer);
  result["policy"] = policy.name;
  result["same_as"] = policy.same;
  result["skipped"] = answer.summary.skipped;
  result["fates"] = json::object();
  for (const PolicySummary::Row& row : answer.summary.rows)
    result["fates"][row.name] = name_of(row.fate);
  result["simulated"] =
      answer.largest > 0 ? simulated_json(host_need(point, answer.largest), link) : json(nullptr);
  // Fewer bytes of state than the default are a hypothesis about a run: what holds without it.
  result["at_default_state_bytes"] = nullptr;
  if (point.state_bytes == StateBytes{}) return result;
  point.state_bytes = StateBytes{};
  result["at_default_state_bytes"] = search_json(find_capacity(point));
  return result;
}

json config_json(const Point& point) {
  const json all = to_json(point);
  json config = json::object();
  for (const Field& field : fields())
    if (const std::string key = key_of(field); shapes_plan(field) && all.contains(key))
      config[key] = all[key];
  return config;
}

}  // namespace

json capacity_result(const Point& point, const std::vector<AskedPolicy>& policies) {
  const Machine machine = load_machine(point.machine.empty() ? default_machine : point.machine);
  json result = {{"model", point.model},          {"machine", machine.name},
                 {"config", config_json(point)},  {"warnings", load_model(point.model).warnings},
                 {"link", machine_json(machine)}, {"policies", json::array()}};
  for (const AskedPolicy& policy : policies)
    result["policies"].push_back(policy_json(point, policy, result["link"]));
  return result;
}

}  // namespace spillway
