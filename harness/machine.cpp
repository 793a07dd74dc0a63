// Reading a machine: a table of the figures the models know, and a strict parser.

#include "harness/machine.h"

#include <array>
#include <cmath>
#include <string_view>

#include "harness/error.h"
#include "harness/machine_json.h"
#include "harness/rates_json.h"

namespace spillway {
namespace {

// Every figure a model may look up. A machine states those it has; the rest are missed only when
// something needs them.
struct FigureInfo {
  const char* key;
  const char* unit;  // fraction: at most 1
  bool may_be_zero;
  const char* meaning;
};

constexpr std::array figure_table = {
    FigureInfo{"matmul_peak_fp32", "FLOP/s", false, "dense peak of matrix products in fp32"},
    FigureInfo{"matmul_peak_bf16", "FLOP/s", false, "dense peak in bf16"},
    FigureInfo{"matmul_peak_fp8", "FLOP/s", false, "dense peak in FP8"},
    FigureInfo{"matmul_peak_nvfp4", "FLOP/s", false, "dense peak in NVFP4"},
    FigureInfo{"matmul_efficiency", "fraction", false, "of the peak, before the ratios below"},
    FigureInfo{"matmul_ratio_fp32", "fraction", false, "efficiency of fp32 relative to bf16"},
    FigureInfo{"matmul_ratio_bf16", "fraction", false, "efficiency of bf16; the yardstick, 1"},
    FigureInfo{"matmul_ratio_fp8", "fraction", false, "efficiency of FP8 relative to bf16"},
    FigureInfo{"matmul_ratio_nvfp4", "fraction", false, "efficiency of NVFP4 relative to bf16"},
    FigureInfo{"attention_ratio_forward", "fraction", false, "attention kernel relative to matmul"},
    FigureInfo{"attention_ratio_backward", "fraction", false, "its backward relative to matmul"},
    FigureInfo{"quantisation_bytes_fp8", "bytes per byte", false,
               "memory traffic of quantising one byte of a bf16 operand"},
    FigureInfo{"quantisation_bytes_nvfp4", "bytes per byte", false, "the same for NVFP4"},
    FigureInfo{"matmul_hbm_share", "fraction", true, "of usable HBM bandwidth, while one runs"},
    FigureInfo{"launch_seconds", "s", true, "fixed time of one kernel"},
    FigureInfo{"hbm_bytes", "bytes", false, "device memory of one device"},
    FigureInfo{"hbm_usable", "fraction", false, "of hbm_bytes that a program may fill"},
    FigureInfo{"hbm_bandwidth", "bytes/s", false, "peak of device memory, read + written"},
    FigureInfo{"hbm_efficiency", "fraction", false, "of that peak, reached by streaming kernels"},
    FigureInfo{"d2d_hbm_share", "fraction", false, "of that peak, reached by device copies"},
    FigureInfo{"host_bytes", "bytes", false, "host memory per device"},
    FigureInfo{"host_devices", "devices", false, "that share one host processor and its memory"},
    FigureInfo{"host_bandwidth", "bytes/s", false, "memory of one host processor, read + written"},
    FigureInfo{"link_h2d", "bytes/s", false, "host to device, one device copying alone"},
    FigureInfo{"link_d2h", "bytes/s", false, "device to host, one device copying alone"},
    FigureInfo{"link_h2d_all", "bytes/s", false, "host to device, per device, all at once"},
    FigureInfo{"link_d2h_all", "bytes/s", false, "device to host, per device, all at once"},
    FigureInfo{"copy_hbm_bytes", "bytes per byte", true, "HBM traffic per byte over the link"},
    FigureInfo{"nvlink_bandwidth", "bytes/s", false, "fabric of a domain, one device, one way"},
    FigureInfo{"nvlink_efficiency", "fraction", false, "of that, reached by collectives"},
    FigureInfo{"nic_bandwidth", "bytes/s", false, "network between domains per device, one way"},
    FigureInfo{"nic_efficiency", "fraction", false, "of that, reached by collectives"},
    FigureInfo{"nic_on_host_link", "fraction", true, "of network traffic crossing the host link"},
    FigureInfo{"gpus_per_domain", "devices", false, "devices of one fabric domain in use"},
    FigureInfo{"collective_latency", "s", true, "fixed time of one collective"},
    FigureInfo{"collective_sm_share", "fraction", true, "of the cores, held by a collective"},
    FigureInfo{"collective_hbm_bytes", "bytes per byte", true, "HBM traffic per byte it moves"},
};

const FigureInfo* find_info(std::string_view key) {
  for (const FigureInfo& info : figure_table)
    if (key == info.key) return &info;
  return nullptr;
}

std::string known_figures() {
  std::string list;
  for (const FigureInfo& info : figure_table)
    list += text("\n  ", info.key, " [", info.unit, "]: ", info.meaning);
  return list;
}

using Json = nlohmann::json;

// Finite, positive (or zero where that means something), a fraction at most 1.
void check_range(double value, const FigureInfo& info, const std::string& where) {
  const bool fraction = std::string(info.unit) == "fraction";
  const bool low = info.may_be_zero ? value >= 0 : value > 0;
  if (low && std::isfinite(value) && (!fraction || value <= 1)) return;
  throw InputError(text(where, ": value is ", value, ", expected a number ",
                        info.may_be_zero ? ">= 0" : "> 0", fraction ? " and <= 1" : "", " [",
                        info.unit, "]"));
}

// A year, with a month and a day where they are known.
void check_date(const std::string& date, const std::string& where) {
  constexpr std::string_view pattern = "dddd-dd-dd";
  bool legal = date.size() == 4 || date.size() == 7 || date.size() == 10;
  for (size_t i = 0; legal && i < date.size(); ++i)
    legal = pattern[i] == '-' ? date[i] == '-' : date[i] >= '0' && date[i] <= '9';
  if (!legal)
    throw InputError(text(where, ": date is \"", date,
                          "\", expected a year such as 2026, 2026-11 or 2026-11-30"));
}

Figure parse_figure(const std::string& key, const Json& object, const std::string& file) {
  const std::string where = text(file, ": figure \"", key, "\"");
  const FigureInfo* info = find_info(key);
  if (info == nullptr)
    throw InputError(
        text(file, ": unknown figure \"", key, "\", expected one of", known_figures()));
  if (!object.is_object())
    throw InputError(
        text(where, " is ", object.dump(), ", expected {\"value\", \"source\", \"assumed\"}"));
  refuse_other_keys(object, {"value", "source", "assumed", "date"}, where);
  Figure figure;
  figure.value = member(object, "value", Json::value_t::number_float, "a number", where);
  check_range(figure.value, *info, where);
  figure.source = member(object, "source", Json::value_t::string, "a text", where);
  if (figure.source.empty())
    throw InputError(text(
        where, ": source is empty, expected where the value comes from, or why it is assumed"));
  if (object.contains("assumed"))
    figure.assumed = member(object, "assumed", Json::value_t::boolean, "true or false", where);
  if (object.contains("date")) {
    figure.date = member(object, "date", Json::value_t::string, "a text", where);
    check_date(figure.date, where);
  }
  return figure;
}

}  // namespace

double Machine::figure(std::string_view key) const {
  const auto found = figures.find(key);
  if (found != figures.end()) return found->second.value;
  const FigureInfo* info = find_info(key);
  check(info != nullptr, "figure \"", key, "\" is looked up but not in the table of figures");
  throw InputError(text(file, ": figure \"", key, "\" is missing, expected a number [", info->unit,
                        "]: ", info->meaning));
}

Machine parse_machine(const std::string& json_text, const std::string& file) {
  const Json root = parse_without_duplicates(json_text, file);
  if (!root.is_object())
    throw InputError(text(file, ": found ", root.type_name(), ", expected an object"));
  refuse_other_keys(root, {"name", "figures", "rates"}, file);
  Machine machine;
  machine.file = file;
  machine.name = member(root, "name", Json::value_t::string, "a text", file);
  if (machine.name.empty()) throw InputError(text(file, ": name is empty, expected a text"));
  const Json& figures = member(root, "figures", Json::value_t::object, "an object", file);
  for (const auto& [key, value] : figures.items())
    machine.figures[key] = parse_figure(key, value, file);
  if (root.contains("rates"))
    machine.rates =
        parse_rates(member(root, "rates", Json::value_t::object, "an object", file), file);
  return machine;
}

}  // namespace spillway
