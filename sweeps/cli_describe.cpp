// spillway describe: sizes, bytes and FLOPs of a model, without running anything.
#include <cstdio>
#include <iostream>

#include "harness/error.h"
#include "offload/policy.h"
#include "sweeps/cli.h"
#include "workloads/accounting.h"
#include "workloads/llama.h"
#include "workloads/shard.h"

namespace spillway {

namespace {

nlohmann::json describe_json(const ModelConfig& config, const ModelAccount& account) {
  nlohmann::json activations = nlohmann::json::array();
  for (const ActivationSize& size : account.activations)
    activations.push_back({{"segment", size.segment},
                           {"layers", size.layers},
                           {"name", size.name},
                           {"bytes", size.bytes}});
  return {
      {"model", config.name},
      {"params_total", account.params_total},
      {"params_active", account.params_active},
      {"dense_layers", account.dense_layers},
      {"moe_layers", account.moe_layers},
      {"head_dim", account.head_dim ? nlohmann::json(*account.head_dim) : nlohmann::json(nullptr)},
      {"kv_heads", account.kv_heads},
      {"q_bytes", account.q_bytes},
      {"k_bytes", account.k_bytes},
      {"v_bytes", account.v_bytes},
      {"qkv_bytes_per_layer", account.qkv_bytes_per_layer},
      {"qkv_bytes_all_layers", account.qkv_bytes_all_layers},
      {"flops_step_causal", account.flops_step_causal},
      {"flops_step_full", account.flops_step_full},
      {"activations", activations}};
}

void print_table(const ModelConfig& config, const ModelAccount& account, int64_t batch,
                 int64_t seq) {
  std::printf(
      "%s: %lld parameters (%lld active), %lld dense layers, %lld kv heads\n", config.name.c_str(),
      static_cast<long long>(account.params_total), static_cast<long long>(account.params_active),
      static_cast<long long>(account.dense_layers), static_cast<long long>(account.kv_heads));
  std::printf("micro batch %lld, sequence %lld, per device and step:\n",
              static_cast<long long>(batch), static_cast<long long>(seq));
  std::printf("  %.3f TFLOP with causal-halved attention, %.3f with the full square\n",
              static_cast<double>(account.flops_step_causal) / 1e12,
              static_cast<double>(account.flops_step_full) / 1e12);
  std::printf("  Q + K + V %s a layer, %s in all layers\n\n",
              bytes_text(static_cast<double>(account.qkv_bytes_per_layer)).c_str(),
              bytes_text(static_cast<double>(account.qkv_bytes_all_layers)).c_str());
  std::printf("  %-22s %8s %14s %14s\n", "activation", "layers", "a layer", "all layers");
  for (const ActivationSize& size : account.activations)
    std::printf(
        "  %-22s %8lld %14s %14s\n", size.name.c_str(), static_cast<long long>(size.layers),
        bytes_text(static_cast<double>(size.bytes)).c_str(),
        bytes_text(static_cast<double>(size.bytes) * static_cast<double>(size.layers)).c_str());
}

}  // namespace

int execute(const DescribeCommand& command) {
  ModelConfig config = load_model(command.point.model);
  for (const std::string& warning : config.warnings)
    std::cerr << "warning: " << warning << "\n";
  if (command.point.layers) config.layers = *command.point.layers;
  const int64_t batch = command.point.micro_batch.value_or(config.micro_batch.value_or(1));
  const int64_t seq = command.point.seq.value_or(config.seq.value_or(4096));
  const ModelAccount model = account(config, batch, seq);
  if (!command.json.empty()) write_json(command.json, describe_json(config, model));
  if (command.json != "-" && !command.program) print_table(config, model, batch, seq);
  if (command.program) {
    WorkloadOptions options;
    options.micro_batch = batch;
    options.seq = seq;
    const Program built = shard(build_llama(config, options), command.point.devices);
    write_text("-", dump(apply_policy(built, parse_policy(command.point.policy)).program));
  }
  return 0;
}

}  // namespace spillway
