// The executor's host copies beside a plain loop of cudaMemcpyAsync over the same page-locked memory.
#include "harness/error.h"
#include "harness/measurement.h"
#include "sweeps/probe.h"
#include "tests/gpu/part.h"
#include "tests/gpu/timing.h"

namespace spillway {
namespace {

constexpr double least_ratio = 0.97;
constexpr int copy_rounds = 7;

// So many copies of one size, in each of the directions.
struct Load {
  const char* name;
  std::vector<OpKind> directions;
  int64_t bytes;  // of one
  int64_t copies;
  double total() const {
    return static_cast<double>(bytes * copies) * static_cast<double>(directions.size());
  }
};

std::vector<ProbeOp> ops_of(const Load& load) {
  const Shape shape = {load.bytes / bytes_of(DType::bf16)};
  std::vector<ProbeOp> ops;
  for (int64_t i = 0; i < load.copies; ++i)
    for (const OpKind kind : load.directions)
      ops.push_back({kind, {shape}, shape, DType::bf16});
  return ops;
}

double plain_seconds(const Subject& subject, const Load& load) {
  Gpu& gpu = subject.memory->gpu();
  std::vector<GpuStream> streams;
  std::vector<CUstream_st*> handles;
  for (size_t i = 0; i < load.directions.size(); ++i) {
    streams.push_back(make_stream(gpu));
    handles.push_back(streams.back().get());
  }
  return seconds_of_issued(gpu, handles, 1, [&] {
    int64_t place = 0;
    for (int64_t i = 0; i < load.copies; ++i)
      for (size_t d = 0; d < load.directions.size(); ++d, ++place) {
        std::byte* device = subject.memory->device() + place * load.bytes;
        std::byte* host = subject.memory->host() + place * load.bytes;
        const bool out = load.directions[d] == OpKind::copy_d2h;
        gpu.copy(out ? host : device, out ? device : host, load.bytes, handles[d]);
      }
  });
}

// Turn by turn, so that whatever else the machine does meets both.
void compare_copies(const Subject& subject, const Load& load, Finding& finding) {
  const Schedule schedule = probe_schedule(ops_of(load), 1);
  const Plan plan = plan_memory(schedule);
  const auto executor =
      make_stream_executor(schedule, plan, {.timestamps = false}, subject.memory, subject.kernels);
  executor->step();
  std::vector<double> ours, plain;
  for (int round = 0; round < copy_rounds; ++round) {
    ours.push_back(executor->step().seconds);
    plain.push_back(plain_seconds(subject, load));
  }
  const double own_rate = load.total() / statistics_of(ours).median,
               plain_rate = load.total() / statistics_of(plain).median;
  finding.figures[load.name] = {{"bytes_per_second", own_rate},
                                {"plain_bytes_per_second", plain_rate},
                                {"ratio", own_rate / plain_rate}};
  if (!(own_rate >= least_ratio * plain_rate))
    finding.fail(text(load.name, ": ", own_rate / plain_rate, " of a plain loop's rate, expected ",
                      least_ratio));
}

}  // namespace

Finding check_copies(const Subject& subject, const Effort& effort) {
  constexpr int64_t mib = int64_t{1} << 20;
  constexpr OpKind out = OpKind::copy_d2h, in = OpKind::copy_h2d;
  std::vector<Load> loads = {
      {"to host, 256 MiB", {out}, 256 * mib, 4},  {"from host, 256 MiB", {in}, 256 * mib, 4},
      {"both, 256 MiB", {out, in}, 256 * mib, 2}, {"to host, 16 MiB", {out}, 16 * mib, 32},
      {"from host, 16 MiB", {in}, 16 * mib, 32},  {"both, 16 MiB", {out, in}, 16 * mib, 16},
      {"to host, 1 MiB", {out}, mib, 256},        {"from host, 1 MiB", {in}, mib, 256}};
  if (effort.small) loads = {{"both, 4 KiB", {out, in}, 4096, 3}};
  Finding finding;
  for (const Load& load : loads) {
    if (effort.over()) {
      finding.figures["left_out_for_time"].push_back(load.name);
    } else {
      compare_copies(subject, load, finding);
    }
  }
  return finding;
}

}  // namespace spillway
