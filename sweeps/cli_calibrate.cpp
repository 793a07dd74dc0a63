// spillway calibrate: this machine as a machine file.
#include <cstdio>

#include "harness/error.h"
#include "sweeps/calibrate.h"
#include "sweeps/cli.h"
#include "workloads/config.h"

namespace spillway {

namespace {

void print_op(const OpRate& rate) {
  std::string shape;
  for (const int64_t dimension : rate.size.shape)
    shape += text(shape.empty() ? "" : " ", dimension);
  const bool flops = rate.size.variant.find(':') != std::string::npos;
  const double speed = rate.size.work / rate.seconds;
  std::printf("  %-22s %11.6f ms %8.1f %s %5.1f %% %5lld  %s [%s]\n", info(rate.size.kind).name,
              1e3 * rate.seconds, speed / 1e9, flops ? "GFLOP/s" : "GB/s   ", 100 * rate.spread,
              static_cast<long long>(rate.samples), rate.size.variant.c_str(), shape.c_str());
}

void print_rates(const Rates& rates) {
  std::printf("reference product         %.6f ms, spread %.1f %%\n", 1e3 * rates.reference.seconds,
              100 * rates.reference.spread);
  std::printf("ops: median, rate, interquartile range, samples\n");
  for (const OpRate& rate : rates.ops)
    print_op(rate);
  std::printf("copies, as fast as they go, of each lane\n");
  for (const CopyRate& copy : rates.copies)
    std::printf("  %-5s %10lld bytes %8.2f GB/s %5.1f %%\n", name_of(copy.lanes),
                static_cast<long long>(copy.bytes), copy.bytes_per_second / 1e9, 100 * copy.spread);
  std::printf("compute beside copies of a step\n");
  for (const Contention& row : rates.contention)
    std::printf("  %-5s paced %5.2f GB/s, moved %5.2f: products x %.3f, other ops x %.3f\n",
                name_of(row.lanes), row.paced / 1e9, row.moved / 1e9, row.products, row.stream);
  std::printf("a GB/s of copies costs    products %.2f %%, other ops %.2f %%\n",
              1e11 * rates.copy_cost.products, 1e11 * rates.copy_cost.stream);
  const Overheads& o = rates.overheads;
  std::printf(
      "microseconds              %.1f between ops, %.1f pool start, %.1f copy start, %.1f "
      "copy end\n",
      1e6 * o.between_ops, 1e6 * o.pool_start, 1e6 * o.copy_start, 1e6 * o.copy_end);
}

}  // namespace

int execute(const CalibrateCommand& command) {
  if (command.executor == ExecutorKind::cuda)
    throw InputError("--executor: found cuda, which is not measured yet; expected cpu");
  if (command.executor == ExecutorKind::sim)
    throw InputError("--executor: found sim, which has nothing to measure; expected cpu");
  if (command.out.empty()) throw InputError("--out: found nothing, expected a file");
  CalibrateOptions options;
  if (!command.models.empty()) options.models = command.models;
  for (const std::string& model : options.models)
    load_model(model);
  options.seconds = command.seconds;
  options.progress = progress_on_stderr();
  require_writable(command.out);
  const Machine machine = calibrate(options);
  if (command.out != "-") print_rates(machine.rates);
  write_text(command.out, machine_file_text(machine));
  return 0;
}

}  // namespace spillway
