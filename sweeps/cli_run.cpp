// spillway run: one point, executed or simulated.
#include <cstdio>
#include <iostream>
#include <memory>

#include "harness/error.h"
#include "sweeps/cli.h"
#include "sweeps/link.h"
#include "sweeps/run.h"

namespace spillway {

namespace {

void print_number(const char* label, const nlohmann::json& value) {
  if (!value.is_null()) std::printf("%-26s%.6g\n", label, value.get<double>());
}

// Blank parts are left out: a capacity drops, ranks of a dropless path receive.
void print_routing(const nlohmann::json& routing) {
  if (routing.is_null()) return;
  std::string line = text(routing["choice"].get<std::string>(), ", ",
                          routing["path"].get<std::string>(), "; rows received, mean and max");
  const auto add = [&](const char* who, const nlohmann::json& rows) {
    if (rows.is_null()) return;
    line += text("; ", who, " ", rows["mean"].get<double>(), ", ", rows["max"].get<int64_t>());
    if (rows.contains("planned")) line += text(" of ", rows["planned"].get<int64_t>(), " planned");
  };
  add("an expert", routing["expert_rows"]);
  add("a rank", routing["rank_rows"]);
  if (!routing["dropped_choices"].is_null())
    line += text("; dropped ", routing["dropped_choices"].get<int64_t>(), " choices (",
                 100 * routing["dropped_share"].get<double>(), " %)");
  std::printf("%-26s%s\n", "routing", line.c_str());
}

void print_transfers(const nlohmann::json& transfers) {
  if (transfers.is_null() || transfers.empty()) return;
  std::printf("%-26s%-4s %14s %12s %12s\n", "transfer", "", "bytes", "seconds", "exposed");
  for (const nlohmann::json& row : transfers)
    std::printf("  %-24s%-4s %14lld %12.6f %12.6f\n", row["name"].get<std::string>().c_str(),
                row["direction"].get<std::string>().c_str(), row["bytes"].get<long long>(),
                row["seconds"].get<double>(), row["exposed_seconds"].get<double>());
}

void print_matmuls(const nlohmann::json& matmuls) {
  const auto number = [&](const char* key) { return matmuls[key].get<long long>(); };
  const std::string library = matmuls["library"].get<std::string>();
  if (number("products") == 0 && matmuls["plain"].empty()) {
    std::printf("%-26sour own kernels (%s)\n", "  matmuls", library.c_str());
    return;
  }
  std::printf("%-26s%s, %lld products, %lld timed now\n", "  matmuls", library.c_str(),
              number("products"), number("timed_now"));
  for (const nlohmann::json& product : matmuls["plain"])
    std::printf("%-26s%s\n", "    our own kernel", product.get<std::string>().c_str());
}

// Beside the arena, which is the peak above.
void print_gpu(const nlohmann::json& result) {
  if (!result.contains("gpu")) return;
  const nlohmann::json& gpu = result["gpu"];
  std::printf("%-26s%s, compute capability %s\n", "GPU", gpu["name"].get<std::string>().c_str(),
              gpu["compute_capability"].get<std::string>().c_str());
  for (const auto& [label, key] :
       {std::pair{"  arena", "arena_bytes"}, std::pair{"  of it workspaces", "workspace_bytes"},
        std::pair{"  L2 flush buffer", "l2_flush_bytes"},
        std::pair{"  context and others", "context_bytes"}})
    std::printf("%-26s%s\n", label, bytes_text(gpu[key].get<double>()).c_str());
  print_matmuls(gpu["matmuls"]);
}

void print_projection(const nlohmann::json& result) {
  if (!result.contains("projected") || result["projected"].is_null()) return;
  const nlohmann::json& projected = result["projected"];
  const std::string what = text(
      "all ", projected["layers"].get<int64_t>(), " layers",
      projected["devices"] == 1 ? "" : text(", ", projected["devices"].get<int64_t>(), " devices"));
  if (projected["step_seconds"].is_null()) {
    std::printf("%-26snot %s: %s\n", "projected", what.c_str(),
                projected["reason"].get<std::string>().c_str());
    return;
  }
  std::printf("%-26s%.6g s, %s\n", "projected step", projected["step_seconds"].get<double>(),
              what.c_str());
  print_number("projected TFLOPs/s/device", projected["tflops_per_s_per_device"]);
}

void print_result(const nlohmann::json& result) {
  std::printf("%-26s%s\n", "status", result["status"].get<std::string>().c_str());
  if (result["reason"].is_string())
    std::printf("%-26s%s\n", "reason", result["reason"].get<std::string>().c_str());
  std::printf("%-26s%s\n", "kind", result["kind"].get<std::string>().c_str());
  if (result["step_seconds"].is_object()) {
    const nlohmann::json& step = result["step_seconds"];
    std::printf("%-26s%.6f s median of %lld (%.6f to %.6f)\n", "step", step["median"].get<double>(),
                step["n"].get<long long>(), step["min"].get<double>(), step["max"].get<double>());
  }
  print_number("TFLOPs/s/device", result["tflops_per_s_per_device"]);
  print_number("  full-square count", result["tflops_per_s_per_device_full_attention"]);
  print_number("tokens/s/device", result["tokens_per_s_per_device"]);
  print_projection(result);
  std::printf("%-26s%s\n", "peak HBM", bytes_text(result["peak_hbm_bytes"].get<double>()).c_str());
  if (result["peak_hbm_bytes_used"] != result["peak_hbm_bytes"])
    std::printf("%-26s%s\n", "  of it used",
                bytes_text(result["peak_hbm_bytes_used"].get<double>()).c_str());
  for (const auto& [role, bytes] : result["peak_hbm_by_role"].items())
    if (bytes.get<double>() > 0)
      std::printf("  %-24s%s\n", role.c_str(), bytes_text(bytes.get<double>()).c_str());
  std::printf("%-26s%s\n", "host memory", bytes_text(result["host_bytes"].get<double>()).c_str());
  print_gpu(result);
  print_routing(result["routing"]);
  print_number("exposed transfers, s", result["exposed_transfer_seconds"]);
  print_transfers(result["transfers"]);
  if (result["loss"].is_array() && !result["loss"].empty())
    std::printf("%-26s%s to %s\n", "loss", result["loss"].front().dump().c_str(),
                result["loss"].back().dump().c_str());
  if (result["gradient_digest"].is_string())
    std::printf("%-26s%s\n", "gradient digest",
                result["gradient_digest"].get<std::string>().c_str());
}

}  // namespace

int execute(const RunCommand& command) {
  verify_point(command.point);
  require_writable(command.json);
  Settings settings;
  if (command.point.executor == ExecutorKind::cpu) settings.memory = std::make_shared<CpuMemory>();
  if (command.point.executor == ExecutorKind::cuda) settings.cuda = require_cuda();
  if (!command.point.link.empty())
    settings.link_bytes_per_second = resolve_link(command.point, settings);
  const nlohmann::json result = run_point(command.point, settings);
  for (const nlohmann::json& warning : result["warnings"])
    std::cerr << "warning: " << warning.get<std::string>() << "\n";
  std::cerr << result["policy_summary"]["text"].get<std::string>() << "\n";
  if (command.json != "-") print_result(result);
  if (!command.json.empty()) write_json(command.json, result);
  if (result["status"] != "failed") return 0;
  std::cerr << "spillway: " << result["reason"].get<std::string>() << "\n";
  return 1;
}

}  // namespace spillway
