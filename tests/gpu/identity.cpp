// Whole tiny models: one set of bits under every policy, schedule and mode, and close to what the
// CPU executor computes.
#include <algorithm>
#include <cmath>

#include "harness/error.h"
#include "tests/gpu/variant.h"
#include "tests/support/op_case.h"
#include "tests/sweeps/support_runs.h"

namespace spillway {
namespace {

constexpr int64_t identity_steps = 2;

struct Case {
  std::string label;
  Point point;
};

const char* const dense_policies[] = {"full",
                                      "minimal",
                                      "qkv_proj_offloaded",
                                      "minimal_offloaded",
                                      "decoder_layer_input=offload",
                                      "context=offload,query_proj=device"};
const char* const expert_policies[] = {"full", "minimal", "minimal_offloaded",
                                       "decoder_layer_input=offload"};

// All cases of a group must give the same bits: they differ in where values lie and when ops run.
struct Group {
  std::string name;
  std::vector<Case> cases;
};

Group dense_group(Precision precision) {
  Group group{text("llama-tiny ", name_of(precision)), {}};
  for (const char* policy : dense_policies)
    for (const RunVariant& variant : every_schedule({policy})) {
      group.cases.push_back({label(variant), tiny_point(variant, 2, 37)});
      group.cases.back().point.precision = precision;
    }
  return group;
}

Group expert_group(const std::string& model, bool capacity) {
  Group group{model + (capacity ? " by capacity" : " dropless"), {}};
  for (const char* policy : expert_policies)
    for (const RunVariant& variant : {RunVariant{policy, false},
                                      {policy, true},
                                      {policy, true, true},
                                      {policy, true, true, true}}) {
      Case& added = group.cases.emplace_back(Case{label(variant), tiny_point(variant, 2, 33)});
      added.point.model = model;
      added.point.moe.capacity_path = capacity;
    }
  return group;
}

std::vector<Group> all_groups(bool small) {
  if (small) {
    Group few = dense_group(Precision::bf16);
    few.cases = {few.cases.front(), few.cases[few.cases.size() / 2]};
    return {few};
  }
  std::vector<Group> groups = {dense_group(Precision::bf16)};
  for (const char* model : {"deepseek-tiny", "mixtral-tiny"})
    for (const bool capacity : {false, true})
      groups.push_back(expert_group(model, capacity));
  groups.push_back(dense_group(Precision::fp32));
  return groups;
}

// Every case of a group in each of the modes; all must show what the first does.
void compare_group(const Subject& subject, const Effort& effort, const Group& group,
                   const std::vector<CudaOptions>& modes, Finding& finding) {
  std::optional<Shown> first;
  int64_t runs = 0, left_out = 0;
  for (const Case& c : group.cases) {
    if (effort.over()) {
      ++left_out;
      continue;
    }
    const SubjectPoint point(subject, c.point);
    for (const CudaOptions& mode : modes) {
      const Shown shown = show(subject, point, point.schedule, mode, identity_steps);
      ++runs;
      if (!first) first = shown;
      if (shown != *first || !shown.error.empty() || shown.stale_slots != 0)
        finding.fail(text(group.name, ", ", c.label, mode.graphs ? ", graphs" : "",
                          mode.poison ? ", poison" : "", ": ", text_of(shown), "; the first had ",
                          text_of(*first)));
    }
  }
  finding.figures[group.name] = {{"runs", runs},
                                 {"cases_left_out_for_time", left_out},
                                 {"digest", first ? first->digest : ""}};
}

Finding compare_groups(const Subject& subject, const Effort& effort,
                       const std::vector<Group>& groups, const std::vector<CudaOptions>& modes) {
  Finding finding;
  for (const Group& group : groups)
    compare_group(subject, effort, group, modes, finding);
  return finding;
}

// ---- beside the CPU

// |a - b| over |b|, of all gradients as one vector.
double gradient_distance(const Program& program, const ValueExecutor& a, const ValueExecutor& b,
                         const Program& of_b) {
  double off = 0, norm = 0;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& tensor = program.tensors[i];
    if (tensor.role != Role::gradient || tensor.extent != Extent::persistent) continue;
    check(of_b.tensors[i].name == tensor.name, "programs differ in ", tensor.name);
    const auto id = static_cast<TensorId>(i);
    const Values x = decode(a.read(id), tensor.dtype), y = decode(b.read(id), tensor.dtype);
    for (size_t k = 0; k < x.size(); ++k) {
      off += (x[k] - y[k]) * (x[k] - y[k]);
      norm += y[k] * y[k];
    }
  }
  return std::sqrt(off / norm);
}

// Sums in another order: of fp32 24 bits and some thousand terms; bf16 rounds each activation to 8
// bits, some one way here and the other there. With experts only fp32 is compared: one more rounding
// may send a token elsewhere.
struct Closeness {
  Precision precision;
  double loss, gradient;  // relative
};
constexpr Closeness of_fp32{Precision::fp32, 1e-5, 1e-3}, of_bf16{Precision::bf16, 5e-3, 5e-2};

void compare_with_cpu(const Subject& subject, Point point, const Closeness& allowed,
                      Finding& finding) {
  point.precision = allowed.precision;
  const Prepared prepared = prepare(point, {});
  CpuExecutor cpu(prepared.schedule, prepared.plan, {});
  const SubjectPoint own(subject, point);
  const auto gpu =
      make_stream_executor(own.schedule, own.plan, {}, subject.memory, subject.kernels);
  const double want = cpu.step().loss, got = gpu->step().loss;
  const double loss = std::abs(got - want) / std::abs(want);
  const double gradient =
      gradient_distance(prepared.schedule.program, *gpu, cpu, own.schedule.program);
  const std::string name =
      text(point.model, point.moe.capacity_path ? " by capacity " : " ", name_of(point.precision));
  finding.figures[name] = {{"loss", got},
                           {"loss_of_cpu", want},
                           {"loss_off", loss},
                           {"gradient_off", gradient},
                           {"allowed", {allowed.loss, allowed.gradient}}};
  if (!(loss <= allowed.loss && gradient <= allowed.gradient))
    finding.fail(text(name, ": loss off by ", loss, ", gradients by ", gradient, ", allowed ",
                      allowed.loss, " and ", allowed.gradient));
}

}  // namespace

Finding check_identity(const Subject& subject, const Effort& effort) {
  std::vector<CudaOptions> modes = {{}, {.graphs = true}};
  if (effort.small) modes = {{}};
  return compare_groups(subject, effort, all_groups(effort.small), modes);
}

Finding check_stress(const Subject& subject, const Effort& effort) {
  Group few = dense_group(Precision::bf16);
  for (Group& group : all_groups(false))
    if (group.name.find("dropless") != std::string::npos)
      return compare_groups(
          subject, effort, {few, group},
          {{}, {.slow_copy = 20, .poison = true}, {.poison = true, .graphs = true}});
  return {};
}

Finding check_against_cpu(const Subject& subject, const Effort&) {
  Finding finding;
  Point point = tiny_point({.policy = "decoder_layer_input=offload", .pipeline = true}, 2, 33);
  compare_with_cpu(subject, point, of_fp32, finding);
  compare_with_cpu(subject, point, of_bf16, finding);
  for (const char* model : {"deepseek-tiny", "mixtral-tiny"})
    for (const bool capacity : {false, true}) {
      point.model = model;
      point.moe.capacity_path = capacity;
      compare_with_cpu(subject, point, of_fp32, finding);
    }
  return finding;
}

}  // namespace spillway
