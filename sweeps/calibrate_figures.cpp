// Figures of a calibrated machine: what stands for ops of which no like was measured.
#include <algorithm>
#include <functional>

#include "harness/executor.h"
#include "sweeps/calibrate.h"
#include "sweeps/probe.h"

namespace spillway {
namespace {

using Chosen = std::function<bool(const OpRate&)>;

// Median of work over seconds of the rows chosen; `otherwise` where there is none.
double median_rate(const Rates& rates, const Chosen& chosen, double otherwise) {
  std::vector<double> values;
  for (const OpRate& rate : rates.ops)
    if (chosen(rate)) values.push_back(rate.size.work / rate.seconds);
  return values.empty() ? otherwise : median_of(std::move(values)).seconds;
}

double best_rate(const Rates& rates, const Chosen& chosen, double otherwise) {
  for (const OpRate& rate : rates.ops)
    if (chosen(rate)) otherwise = std::max(otherwise, rate.size.work / rate.seconds);
  return otherwise;
}

Chosen matmul_in(const std::string& precision) {
  return [precision](const OpRate& rate) {
    return rate.size.kind == OpKind::matmul &&
           rate.size.variant.find(" " + precision + ":") != std::string::npos;
  };
}

Chosen of_kind(OpKind kind) {
  return [kind](const OpRate& rate) { return rate.size.kind == kind; };
}

// Large ones of kinds that do nothing but stream.
bool streams(const OpRate& rate) {
  constexpr double larger_than_caches_of_a_core = 4e6;
  constexpr OpKind kinds[] = {OpKind::add, OpKind::swiglu, OpKind::rms_norm, OpKind::adamw,
                              OpKind::swiglu_backward};
  return rate.size.work >= larger_than_caches_of_a_core &&
         std::find(std::begin(kinds), std::end(kinds), rate.size.kind) != std::end(kinds);
}

}  // namespace

std::map<std::string, Figure, std::less<>> figures_of(const Rates& rates) {
  std::map<std::string, Figure, std::less<>> figures;
  const auto measured = [&](const std::string& key, double value, const std::string& what) {
    figures[key] = {value, "calibrate: " + what, false, rates.date};
  };
  const auto fraction = [](double value) { return std::clamp(value, 1e-6, 1.0); };
  constexpr double width = ReferenceProduct::width;
  const double reference = 2 * width * width * width / rates.reference.seconds;
  const double bf16 = best_rate(rates, matmul_in("bf16"), reference);
  const double fp32 = best_rate(rates, matmul_in("fp32"), bf16);
  const double usual = median_rate(rates, matmul_in("bf16"), bf16);
  const double stream = median_rate(rates, streams, 10e9);
  measured("matmul_peak_bf16", bf16, "fastest product");
  measured("matmul_peak_fp32", fp32, "fastest product");
  measured("matmul_efficiency", fraction(usual / bf16), "median of the products over the fastest");
  measured("matmul_ratio_bf16", 1, "the yardstick");
  measured("matmul_ratio_fp32",
           fraction(median_rate(rates, matmul_in("fp32"), fp32) / fp32 * bf16 / usual),
           "as matmul_efficiency");
  for (const char* narrow : {"fp8", "nvfp4"}) {
    measured(std::string("matmul_peak_") + narrow, bf16, "emulated, as bf16");
    measured(std::string("matmul_ratio_") + narrow, 1, "emulated, as bf16");
  }
  figures["quantisation_bytes_fp8"] = {2.5, "of the emulation: two reads, one byte of two written",
                                       false};
  figures["quantisation_bytes_nvfp4"] = {
      2.28125, "of the emulation: two reads, 9/16 of a byte of two written", false};
  measured("attention_ratio_forward",
           fraction(median_rate(rates, of_kind(OpKind::attention), usual) / usual), "median");
  measured("attention_ratio_backward",
           fraction(median_rate(rates, of_kind(OpKind::attention_backward), usual) / usual),
           "median");
  figures["matmul_hbm_share"] = {0.3, "tiles are reused from cache", true};
  measured("launch_seconds", rates.overheads.between_ops + rates.overheads.pool_start,
           "between two ops, and waking the workers");
  measured("hbm_bandwidth", stream, "median of ops that stream, read + written");
  measured("hbm_efficiency", 1, "hbm_bandwidth is what was reached");
  measured("d2d_hbm_share",
           fraction(median_rate(rates, of_kind(OpKind::copy_d2d), stream) / stream), "median");
  for (const CopyLanes lanes : {CopyLanes::d2h, CopyLanes::h2d})
    measured(lanes == CopyLanes::d2h ? "link_d2h" : "link_h2d",
             unpaced_rate(rates, lanes, 4 << 20).value_or(stream / 2),
             "copies of 4 MiB, one thread as fast as it goes");
  figures["copy_hbm_bytes"] = {2, "by definition: each byte is read and written", false};
  const auto available = static_cast<double>(available_memory_bytes());
  measured("hbm_bytes", available, "memory available, which device and host arena share");
  measured("host_bytes", available, "as hbm_bytes");
  figures["hbm_usable"] = {1, "by definition: hbm_bytes is what is available", false};
  return figures;
}

}  // namespace spillway
