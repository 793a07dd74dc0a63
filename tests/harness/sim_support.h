// A machine of round figures and bodies of ops whose time alone is known, for tests of the
// simulator. One unit of each builder is one second on `round_machine()`.
#pragma once

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "harness/executor.h"

namespace spillway {

// A machine file of sweeps/machines/.
inline Machine shipped_machine(const std::string& name) {
  std::ifstream file(std::string(SPILLWAY_SOURCE_DIR) + "/sweeps/machines/" + name);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return parse_machine(bytes.str(), name);
}

// No fixed times, 1200 bytes/s of usable HBM, 500 FLOP/s of bf16, 40 bytes/s on every link.
inline Machine round_machine(const std::map<std::string, double>& changes = {}) {
  std::map<std::string, double> values = {
      {"matmul_peak_fp32", 500},
      {"matmul_peak_bf16", 1000},
      {"matmul_peak_fp8", 2000},
      {"matmul_peak_nvfp4", 4000},
      {"matmul_efficiency", 0.5},
      {"matmul_ratio_fp32", 1},
      {"matmul_ratio_bf16", 1},
      {"matmul_ratio_fp8", 0.8},
      {"matmul_ratio_nvfp4", 0.5},
      {"attention_ratio_forward", 0.5},
      {"attention_ratio_backward", 0.25},
      {"quantisation_bytes_fp8", 1.5},
      {"quantisation_bytes_nvfp4", 2},
      {"matmul_hbm_share", 0.25},
      {"launch_seconds", 0},
      {"hbm_bandwidth", 1500},
      {"hbm_efficiency", 0.8},
      {"d2d_hbm_share", 0.4},
      {"link_h2d", 40},
      {"link_d2h", 40},
      {"link_h2d_all", 40},
      {"link_d2h_all", 40},
      {"copy_hbm_bytes", 0},
      {"nvlink_bandwidth", 80},
      {"nvlink_efficiency", 0.5},
      {"nic_bandwidth", 10},
      {"nic_efficiency", 0.5},
      {"nic_on_host_link", 0},
      {"gpus_per_domain", 4},
      {"collective_latency", 0},
      {"collective_sm_share", 0},
      {"collective_hbm_bytes", 0},
  };
  for (const auto& [key, value] : changes)
    values[key] = value;
  Machine machine{"round", "round.json", {}};
  for (const auto& [key, value] : values)
    machine.figures[key] = {value, "test", true};
  return machine;
}

// One whose collectives and copies take from what runs beside them, in shares as on a large GPU.
inline Machine contended_machine() {
  return round_machine({{"collective_sm_share", 0.12},
                        {"collective_hbm_bytes", 7.5},
                        {"copy_hbm_bytes", 1},
                        {"gpus_per_domain", 1},
                        {"nic_bandwidth", 60},
                        {"nic_on_host_link", 0.1}});
}

// A program of independent ops in one body; every op has operands of its own.
class SimBody {
 public:
  explicit SimBody(int64_t trips = 1, int64_t devices = 1) {
    program_.name = "body";
    program_.devices = devices;
    program_.segments.push_back({"body", Pass::other, trips, -1, {}});
  }

  // Arithmetic: 2 x 1 x 250 s x 1 FLOP at 500 FLOP/s.
  int matmul(int64_t seconds) {
    return op(OpKind::matmul, {{1, 1}, {1, 250 * seconds}}, {1, 250 * seconds}, DType::bf16);
  }
  // A square product of width n, inner size k, in FP8, both operands quantised for it.
  int matmul_fp8(int64_t n, int64_t k) {
    const int made = op(OpKind::matmul, {{n, k}, {k, n}}, {n, n}, DType::bf16);
    Attributes& attributes = program_.segments[0].ops.back().attributes;
    attributes.precision = Precision::fp8;
    attributes.quantised_bytes = 2 * 2 * n * k;
    return made;
  }
  // Streams through memory: 12 bytes an element at 1200 bytes/s.
  int add(int64_t seconds) {
    return op(OpKind::add, {{100 * seconds}, {100 * seconds}}, {100 * seconds}, DType::f32);
  }
  int d2h(int64_t seconds) { return op(OpKind::copy_d2h, {{10 * seconds}}, {10 * seconds}); }
  int h2d(int64_t seconds) { return op(OpKind::copy_h2d, {{10 * seconds}}, {10 * seconds}); }
  // Two devices: half of the full buffer at 40 bytes/s.
  int gather(int64_t seconds) { return op(OpKind::all_gather, {{10 * seconds}}, {20 * seconds}); }

  Schedule schedule(const BodyOrder& order) const { return lay_out(program_, {order}); }
  const Program& program() const { return program_; }

 private:
  int op(OpKind kind, const std::vector<Shape>& inputs, const Shape& output,
         DType dtype = DType::f32) {
    Op made;
    made.kind = kind;
    made.name = "op" + std::to_string(program_.segments[0].ops.size());
    made.attributes.devices = program_.devices;
    const auto operand = [&](const Shape& shape, Space space) {
      Tensor tensor;
      tensor.name = "t" + std::to_string(program_.tensors.size());
      tensor.shape = shape;
      tensor.dtype = dtype;
      tensor.extent = Extent::persistent;
      tensor.space = space;
      return Operand{program_.add(tensor), Index::all()};
    };
    const Space in = kind == OpKind::copy_h2d ? Space::host : Space::device;
    const Space out = kind == OpKind::copy_d2h ? Space::host : Space::device;
    for (const Shape& shape : inputs)
      made.inputs.push_back(operand(shape, in));
    made.outputs.push_back(operand(output, out));
    program_.segments[0].ops.push_back(made);
    return static_cast<int>(program_.segments[0].ops.size()) - 1;
  }

  Program program_;
};

// A loop of random ops: starts and dones at random places between compute ops.
inline Schedule random_schedule(std::mt19937& random, int64_t trips) {
  SimBody body(trips, 2);
  const auto seconds = [&] { return std::uniform_int_distribution<int64_t>(1, 6)(random); };
  BodyOrder order;
  for (int i = 0; i < 6; ++i) {
    order.push_back({StepKind::run, body.matmul(seconds())});
    order.push_back({StepKind::run, body.add(seconds())});
  }
  for (int i = 0; i < 7; ++i) {
    const int op = i < 2   ? body.d2h(seconds())
                   : i < 4 ? body.h2d(seconds())
                           : body.gather(seconds());
    size_t at[2];
    for (size_t& place : at)
      place = std::uniform_int_distribution<size_t>(0, order.size())(random);
    const auto [low, high] = std::minmax(at[0], at[1]);
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(high), {StepKind::done, op});
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(low), {StepKind::start, op});
  }
  return body.schedule(order);
}

inline Trace simulate(const Schedule& schedule, const Machine& machine,
                      const SimOptions& options = {}) {
  return make_sim_executor(schedule, machine, options)->step();
}

}  // namespace spillway
