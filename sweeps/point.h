// One point of a sweep: everything needed to repeat it. Parsing, printing, sweep axes and the key
// of a stored result all go through fields().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/cuda/cuda_executor.h"
#include "harness/executor.h"
#include "harness/program.h"
#include "harness/schedule.h"
#include "offload/latency.h"
#include "offload/lhs_options.h"
#include "workloads/workload.h"

namespace spillway {

// No machine has more, and a product with the sizes of a device still fits 64 bits.
inline constexpr int64_t most_devices = 1'000'000;

enum class ExecutorKind : uint8_t { cpu, sim, cuda };

struct Point {
  std::string model;
  ExecutorKind executor = ExecutorKind::cpu;
  std::string machine;  // name or file; sim only (default gb200-nvl72)
  int64_t devices = 1;
  std::optional<int64_t> micro_batch, seq,
      layers;  // empty: the model's own (proxy) or 1, 4096, all
  std::string policy = "full";
  bool lhs = true, pipeline = false, pipeline_collectives = false, rotation_copies = false;
  int64_t pipeline_depth = 1, unroll = 1;  // of rotated loops
  int64_t resident_tail = 0;               // layers
  std::string lhs_off_collectives = "post";
  LhsRules lhs_rules;
  LhsLimits lhs_limits;
  double memory_slop = 95;  // percent
  Streams streams = Streams::position;
  LatencyModel latency_model = LatencyModel::size;
  std::string profile;        // a result's file, of the measured model
  int64_t combine_bytes = 0;  // collectives are joined up to so many bytes; 0: none are
  Precision precision = Precision::bf16;
  Precision projection_precision = Precision::bf16;  // attention projections under fp8, nvfp4
  bool fp32_logits = false;  // converted for the loss
  StateBytes state_bytes;
  MoeOptions moe;  // of models with experts; a dense one takes none
  int64_t steps = 10, warmup = 3;
  std::optional<int64_t> hbm_bytes, host_bytes;
  std::string link;  // "", GB/s, or match:MACHINE[/K]
  double slow_copy = 1;
  bool poison = false;
  bool cuda_graph = false, l2_flush = false, timestamps = true;  // of GPU runs
  MatmulBy matmul = MatmulBy::automatic;
  std::string algorithms;  // a file; empty: the user's cache
  bool plain_attention = false;
  uint64_t seed = 0;
  bool every_iteration = false;  // simulated one by one
  SimRanks ranks;                // of a simulation; their seed is `seed`
};

// One option: its name (without dashes; JSON key with underscores), how to print and parse it.
struct Field {
  const char* name;   // "micro-batch"
  const char* value;  // "B", for --help
  const char* help;
  std::string (*print)(const Point&);              // "" when unset
  void (*parse)(Point&, const std::string& text);  // throws InputError: option, found, expected
  bool is_flag = false;                            // on the command line the name alone means "on"
};
const std::vector<Field>& fields();
std::string key_of(const Field& field);  // "micro_batch"

nlohmann::json to_json(const Point& point);
// Sets one field from JSON (key with underscores). Throws InputError naming `where`, key, found,
// expected; an unknown key lists the known ones.
void set_field(Point& point, const std::string& key, const nlohmann::json& value,
               const std::string& where);
// What no single option can say: a model is given, fewer warm-up steps than steps, nothing of a
// simulation that only an execution does, options of rotation and of experts that fit each other
// and the devices.
void verify_point(const Point& point);
// Throws InputError naming `where` and the key.
Point point_from_json(const nlohmann::json& object, const std::string& where);

}  // namespace spillway
