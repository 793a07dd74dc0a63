// The options of a point, as one table.
#include "sweeps/point.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "harness/error.h"
#include "offload/policy.h"
#include "sweeps/link.h"
#include "sweeps/parse.h"

namespace spillway {

namespace {

constexpr int64_t most_ranks = 1024;  // beyond, a step takes minutes

std::string on_off(bool on) { return on ? "on" : "off"; }

std::string optional_text(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : "";
}

// Shortest text that reads back as the same number.
std::string real_text(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, result.ptr};
}

std::string unless_default(int64_t value, int64_t by_default) {
  return value == by_default ? "" : std::to_string(value);
}

std::string unless_default(double value, double by_default) {
  return value == by_default ? "" : real_text(value);
}

const char* name_of(ExecutorKind kind) {
  switch (kind) {
    case ExecutorKind::cpu:
      return "cpu";
    case ExecutorKind::sim:
      return "sim";
    case ExecutorKind::cuda:
      return "cuda";
  }
  return "?";
}

ExecutorKind parse_executor(const std::string& text) {
  for (const ExecutorKind kind : {ExecutorKind::cpu, ExecutorKind::sim, ExecutorKind::cuda})
    if (text == name_of(kind)) return kind;
  bad_value("--executor", text, "cpu, sim or cuda");
}

bool parse_plain_attention(const std::string& text) {
  if (text == "plain") return true;
  if (text == "cudnn") return false;
  bad_value("--attention", text, "cudnn or plain");
}

Precision parse_precision(const std::string& option, const std::string& text) {
  for (const Precision precision :
       {Precision::fp32, Precision::bf16, Precision::fp8, Precision::nvfp4})
    if (text == spillway::name_of(precision)) return precision;
  bad_value(option, text, "fp32, bf16, fp8 or nvfp4");
}

std::string state_bytes_text(const StateBytes& bytes) {
  return text(bytes.weight, ",", bytes.m, ",", bytes.v, ",", bytes.gradient);
}

StateBytes parse_state_bytes(const std::string& text) {
  int64_t bytes[4];
  std::stringstream parts(text);
  std::string part;
  int count = 0;
  while (std::getline(parts, part, ',')) {
    if (count == 4 || (part != "2" && part != "4")) count = 5;
    if (count > 3) break;
    bytes[count++] = part == "2" ? 2 : 4;
  }
  if (count != 4 || text.back() == ',')
    bad_value("--state-bytes", text, "four numbers W,M,V,G, each 2 or 4, such as 4,4,4,4");
  return {bytes[0], bytes[1], bytes[2], bytes[3]};
}

bool parse_moe_path(const std::string& text) {
  if (text == "capacity") return true;
  if (text == "dropless") return false;
  bad_value("--moe", text, "dropless or capacity");
}

RoutingChoice parse_routing(const std::string& text) {
  using Kind = RoutingChoice::Kind;
  // Beyond, shares of later experts are nothing in a double.
  constexpr double steepest = 64;
  const char* const expected = "uniform, zipf:S with S greater than 0 and at most 64, or one";
  if (text == "uniform") return {Kind::uniform, 0};
  if (text == "one") return {Kind::one, 0};
  if (text.compare(0, 5, "zipf:") != 0) bad_value("--routing", text, expected);
  double exponent = 0;
  try {
    exponent = parse_positive_real("--routing", text.substr(5));
  } catch (const InputError&) {
    bad_value("--routing", text, expected);
  }
  if (exponent > steepest) bad_value("--routing", text, expected);
  return {Kind::zipf, exponent};
}

std::string parse_collectives(const std::string& text) {
  if (text != "post" && text != "adjacent")
    bad_value("--lhs-off-collectives", text, "post or adjacent");
  return text;
}

Streams parse_streams(const std::string& text) {
  for (const Streams streams : {Streams::position, Streams::precise, Streams::xla})
    if (text == spillway::name_of(streams)) return streams;
  bad_value("--streams", text, "position, precise or xla");
}

uint64_t parse_seed(const std::string& text) {
  return static_cast<uint64_t>(parse_non_negative("--seed", text));
}

// Checks the spelling now; what it means is decided once per run or sweep.
std::string parse_link(const std::string& text) {
  parse_link_option(text);
  return text;
}

// Each iteration of depth peels one more body at both ends of a loop.
constexpr int64_t deepest_pipeline = 16;

int64_t parse_depth(const std::string& text) {
  const int64_t depth = parse_positive("--pipeline-depth", text);
  if (depth > deepest_pipeline)
    bad_value("--pipeline-depth", text, spillway::text("1 to ", deepest_pipeline).c_str());
  return depth;
}

const char* name_of(MatmulBy by) {
  return by == MatmulBy::automatic ? "" : by == MatmulBy::cublaslt ? "cublaslt" : "plain";
}

MatmulBy parse_matmul_by(const std::string& text) {
  for (const MatmulBy by : {MatmulBy::cublaslt, MatmulBy::plain})
    if (text == name_of(by)) return by;
  bad_value("--matmul", text, "cublaslt or plain");
}

int64_t parse_unroll(const std::string& text) {
  if (text != "1" && text != "2") bad_value("--unroll", text, "1 or 2");
  return text == "2" ? 2 : 1;
}

std::string parse_policy_text(const std::string& text) {
  parse_policy(text);
  return text;
}

using P = Point;
using S = const std::string&;

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> table = {
      {"model", "NAME|config.json", "a shipped model, or a Hugging Face config.json",
       [](const P& p) { return p.model; }, [](P& p, S s) { p.model = s; }},
      {"executor", "cpu|sim|cuda", "run for real, or predict",
       [](const P& p) { return std::string(name_of(p.executor)); },
       [](P& p, S s) { p.executor = parse_executor(s); }},
      {"machine", "NAME|FILE", "machine file of a simulation [gb200-nvl72]",
       [](const P& p) { return p.machine; }, [](P& p, S s) { p.machine = s; }},
      {"devices", "N", "devices, fully sharded (FSDP)",
       [](const P& p) { return std::to_string(p.devices); },
       [](P& p, S s) { p.devices = parse_count("--devices", s, most_devices); }},
      {"micro-batch", "B", "sequences per device and step [1, a proxy's own]",
       [](const P& p) { return optional_text(p.micro_batch); },
       [](P& p, S s) { p.micro_batch = parse_positive("--micro-batch", s); }},
      {"seq", "S", "tokens per sequence [4096, a proxy's own]",
       [](const P& p) { return optional_text(p.seq); },
       [](P& p, S s) { p.seq = parse_positive("--seq", s); }},
      {"layers", "L", "run only so many layers [all]",
       [](const P& p) { return optional_text(p.layers); },
       [](P& p, S s) { p.layers = parse_count("--layers", s, most_layers); }},
      {"policy", "PRESET|name=fate,...", "fate of each named activation: device, offload or remat",
       [](const P& p) { return p.policy; }, [](P& p, S s) { p.policy = parse_policy_text(s); }},
      {"lhs", "on|off", "latency hiding scheduler", [](const P& p) { return on_off(p.lhs); },
       [](P& p, S s) { p.lhs = parse_on_off("--lhs", s); }},
      {"pipeline", "on|off", "host copies one iteration away from their compute",
       [](const P& p) { return on_off(p.pipeline); },
       [](P& p, S s) { p.pipeline = parse_on_off("--pipeline", s); }},
      {"pipeline-collectives", "on|off", "weight gathers and gradient reduce-scatters likewise",
       [](const P& p) { return on_off(p.pipeline_collectives); },
       [](P& p, S s) { p.pipeline_collectives = parse_on_off("--pipeline-collectives", s); }},
      {"rotation-copies", "on|off", "device-to-device copies of XLA's loop rotation, not rings",
       [](const P& p) { return on_off(p.rotation_copies); },
       [](P& p, S s) { p.rotation_copies = parse_on_off("--rotation-copies", s); }},
      // Options beyond XLA's defaults print nothing at them: earlier results keep their keys.
      {"pipeline-depth", "N", "iterations that --pipeline moves host copies by [1, XLA's]",
       [](const P& p) { return unless_default(p.pipeline_depth, 1); },
       [](P& p, S s) { p.pipeline_depth = parse_depth(s); }},
      {"unroll", "1|2", "iterations in one body of a pipelined loop [1]",
       [](const P& p) { return unless_default(p.unroll, 1); },
       [](P& p, S s) { p.unroll = parse_unroll(s); }},
      {"resident-tail", "N", "of the last N layers what is offloaded stays on the device [0]",
       [](const P& p) { return unless_default(p.resident_tail, 0); },
       [](P& p, S s) { p.resident_tail = parse_non_negative("--resident-tail", s); }},
      {"combine-collectives", "BYTES|nGiB|none",
       "join weight gathers, and gradient reduce-scatters, up to so many bytes [none]",
       [](const P& p) { return p.combine_bytes == 0 ? "" : std::to_string(p.combine_bytes); },
       [](P& p, S s) {
         p.combine_bytes = s == "none" ? 0 : parse_bytes("--combine-collectives", s);
       }},
      {"lhs-off-collectives", "post|adjacent",
       "collectives without LHS: XLA's post-process, or blocking",
       [](const P& p) { return p.lhs_off_collectives; },
       [](P& p, S s) { p.lhs_off_collectives = parse_collectives(s); }},
      {"lhs-rule", "NAME=on|off,...", "comparison rules of LHS (spillway list lhs-rules)",
       [](const P& p) { return text_of(p.lhs_rules); },
       [](P& p, S s) { p.lhs_rules = parse_lhs_rules(s); }},
      {"lhs-limit", "collectives=N,copies=N",
       "open at once under LHS; N may be unlimited [collectives=1,copies=unlimited]",
       [](const P& p) { return p.lhs_limits == LhsLimits{} ? "" : text_of(p.lhs_limits); },
       [](P& p, S s) { p.lhs_limits = parse_lhs_limits(s); }},
      {"memory-slop", "PERCENT", "of what is left of HBM: the memory limit of LHS [95]",
       [](const P& p) { return unless_default(p.memory_slop, Point{}.memory_slop); },
       [](P& p, S s) { p.memory_slop = parse_positive_real("--memory-slop", s); }},
      {"streams", "position|precise|xla",
       "host copies wait for all compute issued before, for what they depend on, or as XLA's on "
       "side streams [position]",
       [](const P& p) -> std::string {
         return p.streams == Streams::position ? "" : spillway::name_of(p.streams);
       },
       [](P& p, S s) { p.streams = parse_streams(s); }},
      {"latency-model", "xla|size|measured",
       "what LHS takes ops to last: XLA's constants, bytes over bandwidth, a profile [size]",
       [](const P& p) -> std::string {
         return p.latency_model == LatencyModel::size ? "" : name_of(p.latency_model);
       },
       [](P& p, S s) { p.latency_model = parse_latency_model(s); }},
      {"profile", "FILE",
       "result of `run --json` of the same program, for --latency-model measured",
       [](const P& p) { return p.profile; }, [](P& p, S s) { p.profile = s; }},
      {"precision", "fp32|bf16|fp8|nvfp4", "number format of MLP matmuls",
       [](const P& p) { return std::string(spillway::name_of(p.precision)); },
       [](P& p, S s) { p.precision = parse_precision("--precision", s); }},
      {"projection-precision", "bf16|fp8|nvfp4", "attention projections under fp8 and nvfp4",
       [](const P& p) { return std::string(spillway::name_of(p.projection_precision)); },
       [](P& p, S s) { p.projection_precision = parse_precision("--projection-precision", s); }},
      {"fp32-logits", "on|off",
       "logits are converted to fp32 for the loss, as by MaxText's cast_logits_to_fp32 [off]",
       [](const P& p) { return std::string(p.fp32_logits ? "on" : ""); },
       [](P& p, S s) { p.fp32_logits = parse_on_off("--fp32-logits", s); }},
      {"state-bytes", "W,M,V,G", "bytes of weight, m, v, gradient per parameter",
       [](const P& p) { return state_bytes_text(p.state_bytes); },
       [](P& p, S s) { p.state_bytes = parse_state_bytes(s); }},
      // Options of experts print nothing at their default: a dense model's result names none.
      {"moe", "dropless|capacity",
       "experts by permuted tokens, or by masks and einsums at a capacity [dropless]",
       [](const P& p) { return std::string(p.moe.capacity_path ? "capacity" : ""); },
       [](P& p, S s) { p.moe.capacity_path = parse_moe_path(s); }},
      {"capacity-factor", "F", "slots of an expert over its even share, with --moe capacity [1]",
       [](const P& p) { return unless_default(p.moe.capacity_factor, 1.0); },
       [](P& p, S s) { p.moe.capacity_factor = parse_positive_real("--capacity-factor", s); }},
      {"routing", "uniform|zipf:S|one", "which experts the synthetic data takes [the router's own]",
       [](const P& p) { return text_of(p.moe.routing); },
       [](P& p, S s) { p.moe.routing = parse_routing(s); }},
      {"expert-parallel", "E", "devices that the experts are spread over; the rest is FSDP [1]",
       [](const P& p) { return unless_default(p.moe.expert_parallel, 1); },
       [](P& p, S s) { p.moe.expert_parallel = parse_positive("--expert-parallel", s); }},
      {"ragged-buffer-factor", "F",
       "rows planned for a device over top-k * tokens [1 simulated, 2 executed]",
       [](const P& p) { return unless_default(p.moe.ragged_buffer_factor, 0.0); },
       [](P& p, S s) {
         p.moe.ragged_buffer_factor = parse_positive_real("--ragged-buffer-factor", s);
       }},
      {"steps", "N", "steps in all", [](const P& p) { return std::to_string(p.steps); },
       [](P& p, S s) { p.steps = parse_positive("--steps", s); }},
      {"warmup", "N", "of these, untimed", [](const P& p) { return std::to_string(p.warmup); },
       [](P& p, S s) { p.warmup = parse_non_negative("--warmup", s); }},
      {"hbm", "BYTES|nGiB", "device capacity [the machine's]",
       [](const P& p) { return optional_text(p.hbm_bytes); },
       [](P& p, S s) { p.hbm_bytes = parse_bytes("--hbm", s); }},
      {"host", "BYTES|nGiB", "host capacity [the machine's]",
       [](const P& p) { return optional_text(p.host_bytes); },
       [](P& p, S s) { p.host_bytes = parse_bytes("--host", s); }},
      {"link", "GB/s|match:MACHINE[/K]",
       "rate of each copy lane; match: the published ratio of transfer "
       "to layer time",
       [](const P& p) { return p.link; }, [](P& p, S s) { p.link = parse_link(s); }},
      {"slow-copy", "FACTOR", "every copy takes so many times as long (for tests)",
       [](const P& p) { return real_text(p.slow_copy); },
       [](P& p, S s) { p.slow_copy = parse_at_least_one("--slow-copy", s); }},
      {"poison", "on|off", "fill freed and unwritten bytes with NaN, watch redzones (for tests)",
       [](const P& p) { return on_off(p.poison); },
       [](P& p, S s) { p.poison = parse_on_off("--poison", s); }, true},
      // As those of experts.
      {"cuda-graph", "on|off", "one CUDA graph a segment, of all its iterations [off]",
       [](const P& p) { return std::string(p.cuda_graph ? "on" : ""); },
       [](P& p, S s) { p.cuda_graph = parse_on_off("--cuda-graph", s); }},
      {"attention", "cudnn|plain",
       "kernels of attention: cuDNN's where they can be, or ours [cudnn]",
       [](const P& p) { return std::string(p.plain_attention ? "plain" : ""); },
       [](P& p, S s) { p.plain_attention = parse_plain_attention(s); }},
      {"timestamps", "on|off", "time every op on the GPU, not whole steps alone [on]",
       [](const P& p) { return std::string(p.timestamps ? "" : "off"); },
       [](P& p, S s) { p.timestamps = parse_on_off("--timestamps", s); }},
      {"l2-flush", "on|off", "overwrite the GPU's L2 cache before every step [off]",
       [](const P& p) { return std::string(p.l2_flush ? "on" : ""); },
       [](P& p, S s) { p.l2_flush = parse_on_off("--l2-flush", s); }},
      {"matmul", "cublaslt|plain",
       "kernels of the GPU's dense products: the library's or our own [the library's if it is "
       "here]",
       [](const P& p) { return std::string(name_of(p.matmul)); },
       [](P& p, S s) { p.matmul = parse_matmul_by(s); }},
      {"algorithms", "FILE", "chosen algorithms of cuBLASLt [~/.cache/spillway/algorithms.json]",
       [](const P& p) { return p.algorithms; }, [](P& p, S s) { p.algorithms = s; }},
      {"seed", "K", "of weights and tokens", [](const P& p) { return std::to_string(p.seed); },
       [](P& p, S s) { p.seed = parse_seed(s); }},
      // As those of experts: a result that does not use it does not name it.
      {"every-iteration", "on|off",
       "simulate each iteration of a loop, not only until its state repeats [off]",
       [](const P& p) { return std::string(p.every_iteration ? "on" : ""); },
       [](P& p, S s) { p.every_iteration = parse_on_off("--every-iteration", s); }},
      {"ranks", "N",
       "simulate so many of the devices, which wait for each other at collectives [1]",
       [](const P& p) { return p.ranks.count == 1 ? "" : std::to_string(p.ranks.count); },
       [](P& p, S s) { p.ranks.count = parse_count("--ranks", s, most_ranks); }},
      {"rank-jitter", "SIGMA",
       "log-normal spread of compute between ranks, by --seed; links and fabric have none [0]",
       [](const P& p) { return unless_default(p.ranks.rank_sigma, 0); },
       [](P& p, S s) { p.ranks.rank_sigma = parse_part("--rank-jitter", s); }},
      {"op-jitter", "SIGMA", "the same between the compute ops of each rank [0]",
       [](const P& p) { return unless_default(p.ranks.op_sigma, 0); },
       [](P& p, S s) { p.ranks.op_sigma = parse_part("--op-jitter", s); }},
      {"straggler", "FACTOR", "the last rank's compute takes so many times as long [1]",
       [](const P& p) { return unless_default(p.ranks.straggler, 1); },
       [](P& p, S s) { p.ranks.straggler = parse_at_least_one("--straggler", s); }},
  };
  return table;
}

std::string key_of(const Field& field) {
  std::string key = field.name;
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

namespace {

std::string text_of(const nlohmann::json& value, const std::string& where, const std::string& key) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return on_off(value.get<bool>());
  if (value.is_number()) return value.dump();
  throw InputError(text(where, ": ", key, ": found ", value.dump(),
                        ", expected a text, a number or true/false"));
}

}  // namespace

nlohmann::json to_json(const Point& point) {
  nlohmann::json object = nlohmann::json::object();
  for (const Field& field : fields())
    if (const std::string value = field.print(point); !value.empty()) object[key_of(field)] = value;
  return object;
}

void set_field(Point& point, const std::string& key, const nlohmann::json& value,
               const std::string& where) {
  std::string known;
  for (const Field& field : fields()) {
    known += (known.empty() ? "" : ", ") + key_of(field);
    if (key_of(field) != key) continue;
    try {
      return field.parse(point, text_of(value, where, key));
    } catch (const InputError& error) {
      throw InputError(text(where, ": ", key, ": ", error.what()));
    }
  }
  throw InputError(text(where, ": ", key, ": found an unknown field, expected one of ", known));
}

Point point_from_json(const nlohmann::json& object, const std::string& where) {
  Point point;
  for (const auto& [key, value] : object.items())
    set_field(point, key, value, where);
  verify_point(point);
  return point;
}

}  // namespace spillway
