// spillway describe: sizes, bytes and FLOPs of a model, without running anything.
#include <cstdio>
#include <iostream>
#include <optional>

#include "harness/error.h"
#include "offload/policy.h"
#include "sweeps/cli.h"
#include "workloads/accounting.h"
#include "workloads/shard.h"
#include "workloads/workload.h"

namespace spillway {

namespace {

using nlohmann::json;

json or_null(const std::optional<int64_t>& value) { return value ? json(*value) : json(nullptr); }

json activations_json(const ModelAccount& account) {
  json activations = json::array();
  for (const ActivationSize& size : account.activations)
    activations.push_back({{"segment", size.segment},
                           {"layers", size.layers},
                           {"name", size.name},
                           {"bytes", size.bytes}});
  return activations;
}

json flops_json(const ModelAccount& account) {
  json parts = json::array();
  for (const FlopPart& part : account.flops)
    parts.push_back({{"name", part.name}, {"flops", part.flops}});
  return parts;
}

json describe_json(const ModelConfig& config, const ModelAccount& account) {
  return {{"model", config.name},
          {"params_total", account.params_total},
          {"params_active", account.params_active},
          {"mtp_unique", or_null(account.mtp_unique)},
          {"total_with_mtp_stored", or_null(account.total_with_mtp_stored)},
          {"dense_layers", account.dense_layers},
          {"moe_layers", account.moe_layers},
          {"head_dim", or_null(account.head_dim)},
          {"kv_heads", account.kv_heads},
          {"q_bytes", account.q_bytes},
          {"k_bytes", account.k_bytes},
          {"v_bytes", account.v_bytes},
          {"qkv_bytes_per_layer", account.qkv_bytes_per_layer},
          {"qkv_bytes_all_layers", account.qkv_bytes_all_layers},
          {"moe_up_bytes_per_layer", or_null(account.moe_up_bytes_per_layer)},
          {"mla_latent_bytes_per_layer", or_null(account.mla_latent_bytes_per_layer)},
          {"flops_step_causal", account.flops_step_causal},
          {"flops_step_full", account.flops_step_full},
          {"flops_step_parts", flops_json(account)},
          {"activations", activations_json(account)}};
}

long long printed(int64_t value) { return value; }
std::string printed_bytes(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }
double in_tera(int64_t flops) { return static_cast<double>(flops) / 1e12; }

void print_sizes(const ModelConfig& config, const ModelAccount& account) {
  std::printf(
      "%s: %lld parameters (%lld active), %lld dense layers, %lld MoE layers, %lld kv heads\n",
      config.name.c_str(), printed(account.params_total), printed(account.params_active),
      printed(account.dense_layers), printed(account.moe_layers), printed(account.kv_heads));
  if (account.mtp_unique && account.total_with_mtp_stored)
    std::printf(
        "not counted: %lld MTP layers of %lld parameters of their own; stored with them %lld\n",
        printed(config.mtp_layers), printed(*account.mtp_unique),
        printed(*account.total_with_mtp_stored));
}

void print_bytes(const ModelAccount& account) {
  std::printf("  Q + K + V %s a layer, %s in all layers\n",
              printed_bytes(account.qkv_bytes_per_layer).c_str(),
              printed_bytes(account.qkv_bytes_all_layers).c_str());
  if (account.mla_latent_bytes_per_layer)
    std::printf("  compressed Q, KV and shared rotary K %s a layer\n",
                printed_bytes(*account.mla_latent_bytes_per_layer).c_str());
  if (account.moe_up_bytes_per_layer)
    std::printf("  output of one MoE up projection %s a layer\n",
                printed_bytes(*account.moe_up_bytes_per_layer).c_str());
}

void print_activations(const ModelAccount& account) {
  std::printf("\n  %-13s %-20s %7s %14s %14s\n", "segment", "activation", "layers", "a layer",
              "all layers");
  for (const ActivationSize& size : account.activations)
    std::printf(
        "  %-13s %-20s %7lld %14s %14s\n", size.segment.c_str(), size.name.c_str(),
        printed(size.layers), printed_bytes(size.bytes).c_str(),
        bytes_text(static_cast<double>(size.bytes) * static_cast<double>(size.layers)).c_str());
}

void print_table(const ModelConfig& config, const ModelAccount& account, int64_t batch,
                 int64_t seq) {
  print_sizes(config, account);
  std::printf("micro batch %lld, sequence %lld, per device and step:\n", printed(batch),
              printed(seq));
  std::printf("  %.3f TFLOP with causal-halved attention, %.3f with the full square\n",
              in_tera(account.flops_step_causal), in_tera(account.flops_step_full));
  for (const FlopPart& part : account.flops)
    std::printf("    %-20s %14.3f\n", part.name.c_str(), in_tera(part.flops));
  print_bytes(account);
  print_activations(account);
}

Program program_of(const ModelConfig& config, int64_t batch, int64_t seq, int64_t devices,
                   const Policy& policy) {
  WorkloadOptions options;
  options.micro_batch = batch;
  options.seq = seq;
  return apply_policy(shard(build_program(config, options), devices), policy).program;
}

}  // namespace

int execute(const DescribeCommand& command) {
  if (command.program && !command.json.empty())
    throw InputError("describe: found --json and --program, expected one of them");
  ModelConfig config = load_model(command.point.model);
  for (const std::string& warning : config.warnings)
    std::cerr << "warning: " << warning << "\n";
  if (command.point.layers) set_layers(config, *command.point.layers);
  const int64_t batch = command.point.micro_batch.value_or(config.micro_batch.value_or(1));
  const int64_t seq = command.point.seq.value_or(config.seq.value_or(4096));
  const ModelAccount model = account(config, batch, seq);
  const Policy policy = parse_policy(command.point.policy);
  // Sizes need no policy, but a name that is none is a mistake here as in a run. A preset has none.
  std::optional<Program> program;
  if (command.program || !policy.preset)
    program = program_of(config, batch, seq, command.point.devices, policy);
  if (command.program)
    write_text("-", dump(*program));
  else if (!command.json.empty())
    write_json(command.json, describe_json(config, model));
  else
    print_table(config, model, batch, seq);
  return 0;
}

}  // namespace spillway
