// Points on a GPU: their data flow is that of all points (run.cpp).
#include "sweeps/run_cuda.h"

#include <array>
#include <utility>

#include "harness/error.h"
#include "sweeps/run.h"

namespace spillway {

namespace {

// By the part of a name that tells one GPU from another; the first that fits.
constexpr std::array<std::pair<const char*, const char*>, 8> machines_by_gpu = {{
    {"GB300", "gb300-nvl72"},
    {"GB200", "gb200-nvl72"},
    {"GH200", "gh200"},
    {"B300", "gb300-nvl72"},
    {"B200", "b200"},
    {"H200", "h200-sxm"},
    {"H100", "h100-sxm"},
    {"A100", "a100-80gb"},
}};

}  // namespace

std::shared_ptr<CudaMemory> require_cuda() {
  const CudaState state = cuda_state();
  if (!state.problem.empty())
    throw InputError(text("--executor: found cuda, but ", state.problem, " (", state.advice,
                          "); expected cpu or sim"));
  const CudaDevice& device = state.devices.front();
  if (!built_for(cuda_targets(), device.major, device.minor))
    throw InputError(text("--executor: found cuda, but the kernels of this build are for ",
                          cuda_targets(), " and ", device.name, " has compute capability ",
                          device.major, ".", device.minor,
                          "; expected a build with -DCMAKE_CUDA_ARCHITECTURES for it"));
  return open_cuda();
}

std::string machine_of_gpu(const std::string& name) {
  for (const auto& [part, machine] : machines_by_gpu)
    if (name.find(part) != std::string::npos) return machine;
  return "h100-sxm";
}

nlohmann::json gpu_json(const GpuRun& gpu) {
  return {{"name", gpu.device.name},
          {"compute_capability", text(gpu.device.major, ".", gpu.device.minor)},
          {"pci_address", gpu.device.pci_address},
          {"memory_bytes", gpu.device.memory_bytes},
          {"cuda_driver", version_text(gpu.driver_version)},
          {"cuda_runtime", version_text(gpu.runtime_version)},
          {"attention", gpu.attention.empty() ? nlohmann::json() : nlohmann::json(gpu.attention)},
          {"arena_bytes", gpu.use.arena},
          {"workspace_bytes", gpu.workspace_bytes},
          {"l2_flush_bytes", gpu.use.l2_flush},
          {"context_bytes", gpu.use.context},
          {"matmuls",
           {{"library", gpu.matmuls.library},
            {"algorithms", gpu.matmuls.file},
            {"products", gpu.matmuls.by_library},
            {"timed_now", gpu.matmuls.timed},
            {"plain", gpu.matmuls.plain}}}};
}

Outcome run_cuda(const Prepared& prepared, std::shared_ptr<CudaMemory> memory, StepCount steps) {
  if (!memory) memory = require_cuda();
  const Point& point = prepared.point;
  const CudaOptions options{.slow_copy = point.slow_copy,
                            .seed = point.seed,
                            .poison = point.poison,
                            .graphs = point.cuda_graph,
                            .timestamps = point.timestamps,
                            .flush_l2 = point.l2_flush,
                            .matmul = point.matmul,
                            .algorithms = point.algorithms};
  const auto executor = make_cuda_executor(prepared.schedule, prepared.plan, options, memory);
  Outcome outcome = run_steps(prepared, *executor, steps);
  const CudaState state = cuda_state();
  outcome.gpu = {
      .device = device_of(*memory),
      .use = executor->use(),
      .matmuls = executor->matmuls(),
      .workspace_bytes = prepared.plan.peak_by_role[static_cast<size_t>(Role::workspace)],
      .runtime_version = state.runtime_version,
      .driver_version = state.driver_version,
      .attention = attention_kernels(prepared.schedule.program)};
  return outcome;
}

}  // namespace spillway
