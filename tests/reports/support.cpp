// A made-up but coherent sample.
#include "tests/reports/support.h"

#include <algorithm>
#include <cmath>

#include "reports/rows.h"

namespace spillway::testing {

namespace {

using nlohmann::json;

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

// The lanes of one layer: ops back to back, copies where `lhs` and `pipeline` put them.
struct LayerMaker {
  json spans = json::array();
  double clock = 0;

  void op(const char* name, const char* kind, double seconds) {
    span("compute", "op", name, kind, clock, clock + seconds);
    clock += seconds;
  }
  void span(const char* lane, const char* kind, const char* name, const char* op, double begin,
            double end) {
    spans.push_back(
        {{"lane", lane}, {"kind", kind}, {"name", name}, {"begin", begin}, {"end", end}});
    if (op) spans.back()["op"] = op;
  }
  void copy(const char* lane, const char* name, double seconds, bool blocks, double begin) {
    const double from = blocks ? clock : begin;
    span(lane, "op", name, std::string(lane) == "d2h" ? "copy_d2h" : "copy_h2d", from,
         from + seconds);
    if (!blocks) return;
    span("compute", "wait", name, nullptr, clock, clock + seconds);
    spans.back()["on"] = lane;
    clock += seconds;
  }
};

struct Variant {
  const char* label;
  const char* policy;
  bool lhs, pipeline, offload, remat;
};

json forward_layer(double unit, const Variant& v) {
  LayerMaker layer;
  layer.op("attention_norm", "rms_norm", 0.3 * unit);
  layer.op("query_proj", "matmul", 2 * unit);
  layer.op("key_proj", "matmul", 0.25 * unit);
  layer.op("value_proj", "matmul", 0.25 * unit);
  layer.op("rope_query", "rope", 0.2 * unit);
  const double ready = layer.clock;
  if (v.offload)
    layer.copy("d2h", "query_proj.write", 0.7 * unit, !v.lhs, v.pipeline ? 0.1 * unit : ready);
  layer.op("attention", "attention", 1.6 * unit);
  layer.op("out_proj", "matmul", 2 * unit);
  layer.op("mlp_norm", "rms_norm", 0.3 * unit);
  layer.op("mlpwi_0", "matmul", 6.5 * unit);
  layer.op("mlpwi_1", "matmul", 6.5 * unit);
  layer.op("swiglu", "swiglu", 0.8 * unit);
  layer.op("mlpwo", "matmul", 6.5 * unit);
  return {{"segment", "layers.forward"}, {"spans", layer.spans}};
}

json backward_layer(double unit, const Variant& v) {
  LayerMaker layer;
  if (v.offload) layer.copy("h2d", "query_proj.read", 0.7 * unit, !v.pipeline, 0.4 * unit);
  if (v.remat) layer.op("query_proj.again", "matmul", 2.5 * unit);
  layer.op("mlpwo.dgrad", "matmul", 6.5 * unit);
  layer.op("mlpwo.wgrad", "matmul", 6.5 * unit);
  layer.op("swiglu.backward", "swiglu_backward", 1.2 * unit);
  layer.op("mlpwi.dgrad", "matmul", 13 * unit);
  layer.op("mlpwi.wgrad", "matmul", 13 * unit);
  layer.op("attention.backward", "attention_backward", 4 * unit);
  layer.op("qkv.dgrad", "matmul", 4.5 * unit);
  layer.op("qkv.wgrad", "matmul", 4.5 * unit);
  return {{"segment", "layers.backward"}, {"spans", layer.spans}};
}

json roles(double parameters, double kept, double activations, double logits, double flight) {
  return {{"parameters", std::llround(parameters * gib)},
          {"optimizer", std::llround(2 * parameters * gib)},
          {"gradients", std::llround(parameters * gib)},
          {"kept", std::llround(kept * gib)},
          {"in_flight", std::llround(flight * gib)},
          {"gathered_weights", 0},
          {"logits", std::llround(logits * gib)},
          {"activations", std::llround(activations * gib)},
          {"workspace", 0}};
}

json memory_curve(double scale, double kept, double flight, double seconds) {
  json curve = json::array();
  const auto point = [&](const char* segment, int step, double at, double live, double logits) {
    curve.push_back({{"segment", segment},
                     {"step", step},
                     {"seconds", at * seconds},
                     {"bytes", roles(scale, kept, live * scale, logits * scale, flight)}});
  };
  point("embed", 0, 0, 0.05, 0);
  for (int i = 0; i < 12; ++i)
    point("layers.forward", i, 0.01 + 0.025 * i, 0.1 + 0.08 * (i % 7), 0);
  for (int i = 0; i < 4; ++i)
    point("head", i, 0.32 + 0.015 * i, 0.05, 0.3 + 0.3 * (i % 3));
  for (int i = 0; i < 20; ++i)
    point("layers.backward", i, 0.38 + 0.029 * i, 0.2 + 0.1 * ((i * 3) % 8), 0);
  point("optimizer", 0, 0.97, 0.02, 0);
  return curve;
}

json transfers(const Variant& v, double bytes, double seconds) {
  if (!v.offload) return json::array();
  const double write = v.lhs ? 0 : seconds, read = v.pipeline ? 0.02 * seconds : seconds;
  json list = json::array();
  const auto add = [&](const char* direction, double exposed) {
    list.push_back({{"name", "query_proj"},
                    {"direction", direction},
                    {"bytes", std::llround(bytes)},
                    {"seconds", seconds},
                    {"exposed_seconds", exposed}});
  };
  add("d2h", write);
  add("h2d", read);
  return list;
}

void add_times(json& result, const Variant& v, double seconds, double spread, int n, double tflop,
               double copy_seconds) {
  result["step_seconds"] = {{"median", seconds},
                            {"min", seconds * (1 - spread)},
                            {"max", seconds * (1 + spread)},
                            {"n", n}};
  result["tflops_per_s_per_device"] = tflop / seconds;
  result["tflops_per_s_per_device_full_attention"] = tflop * 1.0402 / seconds;
  result["transfers"] =
      transfers(v, result["offloaded_bytes_per_step"].get<double>(), copy_seconds);
  double exposed = 0;
  for (const json& transfer : result["transfers"])
    exposed += transfer["exposed_seconds"].get<double>();
  result["exposed_transfer_seconds"] = exposed;
  result["compute_lane"] = {{"busy_seconds", seconds * 0.99 - exposed},
                            {"waiting_seconds", exposed},
                            {"idle_seconds", seconds * 0.01}};
  const double busy = seconds * 0.99 - exposed;
  result["op_seconds"] = {
      {"matmul", busy * 0.8},    {"attention", busy * 0.05}, {"attention_backward", busy * 0.07},
      {"rms_norm", busy * 0.03}, {"adamw", busy * 0.03},     {"cross_entropy", busy * 0.02}};
}

json config_of(const char* model, const char* executor, const Variant& v) {
  return {{"model", model},
          {"executor", executor},
          {"policy", v.policy},
          {"lhs", v.lhs ? "on" : "off"},
          {"pipeline", v.pipeline ? "on" : "off"},
          {"poison", false},
          {"steps", 13},
          {"warmup", 3},
          {"layers", nullptr}};
}

Row simulated_row(const Variant& v, const char* id, double rate) {
  json result = empty_result(v.label, "simulated");
  result["published"] = id;
  result["config"] = config_of("llama3.1-405b", "sim", v);
  result["config"].update({{"machine", "gb200-nvl72"},
                           {"devices", 128},
                           {"micro_batch", 2},
                           {"seq", 8192},
                           {"precision", "nvfp4"}});
  result["fitted"] = {{"figure", "matmul_efficiency"}, {"value", 0.654}, {"on", "no offload"}};
  result["sweep"] = {{"name", "published"},
                     {"title", "Published rows"},
                     {"hypotheses",
                      {{{"id", "H1"},
                        {"setting", "collectives rotated"},
                        {"status", "forced"},
                        {"text", "LHS off would expose them: -15 % & the wrong order"}},
                       {{"id", "H2"},
                        {"setting", "projections in FP8"},
                        {"status", "choice"},
                        {"text", "bf16 gives +1.7 to +2.8 %"}}}}};
  result["offloaded_bytes_per_step"] = v.offload ? std::llround(70.875 * gib) : 0;
  result["host_bytes"] = result["offloaded_bytes_per_step"];
  result["host_bytes_reserved"] = result["offloaded_bytes_per_step"];
  result["link_bytes_per_second"] = 172e9;
  const double seconds = 41352.495 / rate;
  add_times(result, v, seconds, 0, 1, 41352.495, 0.443);
  result["tokens_per_s_per_device"] = 16384 / seconds;
  result["executed_matmul_flops"] = (v.offload ? 50219.0 : 51465.8) * 1e12;
  const double kept = 63 + (v.remat || v.offload ? 0 : 70.875), flight = v.offload ? 1.125 : 0;
  result["peak_hbm_by_role"] = roles(11.8, kept, 12, 8, flight);
  result["peak_hbm_by_role"]["holes"] = std::llround(0.2 * gib);
  double peak = 0;
  for (const auto& [role, bytes] : result["peak_hbm_by_role"].items())
    peak += bytes.get<double>();
  result["peak_hbm_bytes"] = std::llround(peak);
  result["memory_curve"] = memory_curve(11.8, kept, flight, seconds);
  result["timeline"] = {forward_layer(1.25e-3, v), backward_layer(1.6e-3, v)};
  return row_of(result, "sample");
}

Row measured_row(const Variant& v, double seconds) {
  json result = empty_result(v.label, "measured");
  result["checked"] = true;
  result["config"] = config_of("llama3.1-405b-proxy", "cpu", v);
  result["config"].update({{"devices", 1},
                           {"micro_batch", 2},
                           {"seq", 1024},
                           {"precision", "bf16"},
                           {"link", "match:gb200-nvl72"}});
  result["environment"] = {{"cpu", "Example CPU <two cores> & more"}, {"threads", 2}};
  result["offloaded_bytes_per_step"] = v.offload ? 113246208 : 0;
  result["host_bytes"] = result["offloaded_bytes_per_step"];
  result["link_bytes_per_second"] = 1.72e9;
  const double kept = 0.1 + (v.remat || v.offload ? 0 : 0.105), flight = v.offload ? 0.009 : 0;
  result["peak_hbm_by_role"] = roles(1.3, kept, 0.05, 0.09, flight);
  result["peak_hbm_by_role"]["holes"] = 0;
  result["peak_hbm_bytes"] = std::llround((5.2 + kept + 0.14 + flight) * gib);
  if (seconds <= 0) {
    result["status"] = "oom";
    result["reason"] =
        "device memory: wanted 5.52 GiB, available 5.45 GiB; largest: <adam.m>, <adam.v>";
    return row_of(result, "sample");
  }
  result["host_bytes_reserved"] = result["offloaded_bytes_per_step"];
  add_times(result, v, seconds, 0.02, 10, 4.1, 0.066);
  result["tokens_per_s_per_device"] = 2048 / seconds;
  result["executed_matmul_flops"] = v.remat ? 5.1e12 : 4.9e12;
  result["memory_curve"] = memory_curve(1.3, kept, flight, seconds);
  result["timeline"] = {forward_layer(1.3e-3, v), backward_layer(1.5e-3, v)};
  result["policy_summary"] = {
      {"text", "query_proj: offload"},
      {"rows",
       {{{"name", "query_proj"}, {"fate", "offload"}, {"tensors", 1}, {"bytes", 100663296}}}}};
  return row_of(result, "sample");
}

constexpr Variant none{"no offload", "full", true, false, false, true};
constexpr Variant lhs{"QKV offload + LHS", "qkv_proj_offloaded", true, false, true, false};
constexpr Variant off{"QKV offload, LHS off", "qkv_proj_offloaded", false, false, true, false};
constexpr Variant pipe{
    "QKV offload + LHS + pipelined", "qkv_proj_offloaded", true, true, true, false};

}  // namespace

json empty_result(const std::string& label, const std::string& kind) {
  json result = {{"label", label}};
  for (const char* key : result_fields())
    result[key] = nullptr;
  result["status"] = "ok";
  result["kind"] = kind;
  result["checked"] = false;
  result["config"] = json::object();
  return result;
}

std::vector<Row> simulated_rows() {
  return {simulated_row(none, "llama3.1-405b/no-offload", 2669),
          simulated_row(lhs, "llama3.1-405b/qkv-offload-lhs", 2754),
          simulated_row(off, "llama3.1-405b/qkv-offload-lhs-off", 2606),
          simulated_row(pipe, "llama3.1-405b/qkv-offload-lhs-pipelined", 2736)};
}

std::vector<Row> measured_rows() {
  constexpr Variant device{"device", "query_proj=device,key_proj=device", true, false, false,
                           false};
  Variant again = device;
  again.label = "device, too little memory";
  Variant remat = none;
  remat.label = "remat";
  return {measured_row(device, 2.70), measured_row(remat, 2.80), measured_row(off, 2.86),
          measured_row(lhs, 2.79),    measured_row(pipe, 2.74),  measured_row(again, 0)};
}

std::vector<Row> sample_rows() {
  std::vector<Row> rows = simulated_rows();
  for (Row& row : measured_rows())
    rows.push_back(std::move(row));
  return rows;
}

}  // namespace spillway::testing
