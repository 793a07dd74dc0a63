// One part of the check of a GPU (scripts/gpu_check.sh): what it found, and what it works on. The
// script runs each part in a process of its own, since an error of a device ends a process's use of
// it.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/cuda/stream_executor.h"
#include "harness/workspaces.h"

namespace spillway {

// A GPU with our kernels, or in tests a stand-in with its own.
struct Subject {
  std::shared_ptr<CudaMemory> memory;
  KernelOf kernels = cuda_kernel;
  WorkspaceBytes workspace_bytes = cuda_workspace_bytes;
};

enum class Verdict : uint8_t { pass, fail, skipped };
const char* name_of(Verdict verdict);

struct Finding {
  Verdict verdict = Verdict::pass;
  std::string reason;  // of what is no pass; of a pass what was left out
  nlohmann::json figures = nlohmann::json::object();

  // Fails, unless it has already; keeps the first reason.
  void fail(const std::string& why);
};

// How much of a part to do: what it has when its time is over, it reports.
struct Effort {
  std::chrono::steady_clock::time_point end;
  bool small = false;  // under tools that run everything many times slower
  bool over() const { return std::chrono::steady_clock::now() >= end; }
};

struct Part {
  const char* name;
  int seconds;  // it may take
  const char* about;
  Finding (*run)(const Subject& subject, const Effort& effort);
};

// Cheapest and most telling first.
std::span<const Part> parts();

Finding check_environment(const Subject& subject, const Effort& effort);
Finding check_ops(const Subject& subject, const Effort& effort);
Finding check_identity(const Subject& subject, const Effort& effort);
Finding check_against_cpu(const Subject& subject, const Effort& effort);
Finding check_stress(const Subject& subject, const Effort& effort);
Finding check_races(const Subject& subject, const Effort& effort);
Finding check_copies(const Subject& subject, const Effort& effort);
Finding check_llama(const Subject& subject, const Effort& effort);
Finding check_deepseek(const Subject& subject, const Effort& effort);
Finding check_calibration(const Subject& subject, const Effort& effort);
Finding check_memory_tool(const Subject& subject, const Effort& effort);
Finding check_race_tool(const Subject& subject, const Effort& effort);

// {"part", "status", "reason" or null, "seconds", "figures"}: the line a part prints.
nlohmann::json line_of(const std::string& part, const Finding& finding, double seconds);

}  // namespace spillway
