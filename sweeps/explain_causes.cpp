// Seconds by cause.
#include "sweeps/explain_causes.h"

#include <algorithm>

#include "harness/error.h"
#include "harness/lane_partition.h"

namespace spillway {

const std::array<StepCauseInfo, step_cause_count>& step_cause_table() {
  static constexpr std::array<StepCauseInfo, step_cause_count> table = {{
      {StepCause::recompute, "recompute", "recomputation",
       "ops of the forward pass run again in the backward pass, alone"},
      {StepCause::compute, "compute", "other compute",
       "all other ops of the compute lane, alone: layers, head, loss, optimizer"},
      {StepCause::quantisation, "quantisation", "quantisation",
       "passes over operands that narrow formats need, but for those of recomputed ops"},
      {StepCause::rotation_copies, "rotation_copies", "rotation copies",
       "device-to-device copies that rotating a loop adds"},
      {StepCause::launches, "launches", "kernel launches", "launch gaps and tails of kernels"},
      {StepCause::contention_collectives, "contention_collectives", "contention with collectives",
       "what ops took longer than alone while collectives ran"},
      {StepCause::contention_copies, "contention_copies", "contention with host copies",
       "what ops took longer than alone while host copies ran"},
      {StepCause::contention_both, "contention_both", "contention with both",
       "what ops took longer than alone while collectives and host copies ran"},
      {StepCause::exposed_gathers, "exposed_gathers", "exposed gathers",
       "compute stood waiting while weights were gathered"},
      {StepCause::exposed_gathers_repeated, "exposed_gathers_repeated", "exposed repeated gathers",
       "the same, of gathers that only recomputation needs"},
      {StepCause::exposed_reduce_scatters, "exposed_reduce_scatters", "exposed reduce-scatters",
       "compute stood waiting while gradients were reduced"},
      {StepCause::exposed_exchanges, "exposed_exchanges", "exposed all-to-alls",
       "compute stood waiting for rows of experts on their way"},
      {StepCause::exposed_exchanges_repeated, "exposed_exchanges_repeated",
       "exposed repeated all-to-alls", "the same, of exchanges that only recomputation needs"},
      {StepCause::exposed_d2h, "exposed_d2h", "exposed writes to the host",
       "compute stood waiting for copies to host memory"},
      {StepCause::exposed_h2d, "exposed_h2d", "exposed reads from the host",
       "compute stood waiting for copies from host memory"},
      {StepCause::peeled, "peeled", "peeled ends",
       "waits and contention in the bodies that rotation cut off the ends of loops"},
      {StepCause::idle, "idle", "idle", "neither computing nor waiting"},
      {StepCause::variation, "variation", "variation",
       "what ops took longer than alone with nothing beside them"},
  }};
  return table;
}

double StepCauses::total(StepCause cause) const {
  double sum = 0;
  for (const auto& [name, part] : seconds[static_cast<size_t>(cause)])
    sum += part;
  return sum;
}

double StepCauses::total() const {
  double sum = 0;
  for (const StepCauseInfo& entry : step_cause_table())
    sum += total(entry.cause);
  return sum;
}

namespace {

Machine with_figure_zero(Machine machine, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const auto figure = machine.figures.find(key); figure != machine.figures.end())
      figure->second.value = 0;
  return machine;
}

// "gather.layers.mlp.up_proj.weight" of "head/gather.layers.mlp.up_proj.weight@layers.prologue".
std::string plain_name(const Op& op) {
  if (is_host_copy(op)) return op.attributes.activation;
  std::string name = op.name.substr(0, op.name.find('@'));
  return name.substr(name.rfind('/') + 1);
}

class Sorter {
 public:
  Sorter(const Schedule& schedule, const Machine& machine, const SimOptions& options)
      : program_(schedule.program),
        options_(options),
        machine_(machine),
        without_launches_(with_figure_zero(machine, {"launch_seconds"})),
        without_quantisation_(
            with_figure_zero(machine, {"quantisation_bytes_fp8", "quantisation_bytes_nvfp4"})) {}

  void add(const BusyTime& time) {
    const Op& op = at(time.segment, time.op);
    const std::string kind = info(op.kind).name;
    const double runs = static_cast<double>(time.runs);
    const double alone = op_seconds(program_, op, machine_, options_);
    const double launches = alone - op_seconds(program_, op, without_launches_, options_);
    const double quantisation =
        op.recomputed ? 0 : alone - op_seconds(program_, op, without_quantisation_, options_);
    const StepCause own = op.recomputed                 ? StepCause::recompute
                          : op.kind == OpKind::copy_d2d ? StepCause::rotation_copies
                                                        : StepCause::compute;
    put(own, kind, runs * (alone - launches - quantisation));
    put(StepCause::launches, kind, runs * launches);
    put(StepCause::quantisation, kind, runs * quantisation);
    add_contention(op, time, time.seconds - runs * alone);
  }

  void add(const WaitTime& wait) {
    const Op& op = at(wait.segment, wait.op);
    put(op.peeled ? StepCause::peeled : cause_of_wait(op), plain_name(op), wait.seconds);
  }

  void add_idle(double seconds) { put(StepCause::idle, "idle", seconds); }

  StepCauses take() { return std::move(causes_); }

 private:
  const Op& at(int segment, int op) const {
    return program_.segments[index_of(segment)].ops[index_of(op)];
  }

  void put(StepCause cause, const std::string& on, double seconds) {
    if (seconds != 0) causes_[cause][on] += seconds;
  }

  void add_contention(const Op& op, const BusyTime& time, double excess) {
    const std::string kind = info(op.kind).name;
    const double beside = time.beside_collectives + time.beside_copies + time.beside_both;
    if (op.peeled) return put(StepCause::peeled, kind, excess);
    if (beside <= 0) return put(StepCause::variation, kind, excess);
    const double copies = excess * (time.beside_copies / beside);
    const double both = excess * (time.beside_both / beside);
    put(StepCause::contention_copies, kind, copies);
    put(StepCause::contention_both, kind, both);
    put(StepCause::contention_collectives, kind, excess - copies - both);
  }

  StepCause cause_of_wait(const Op& op) const {
    switch (op.kind) {
      case OpKind::all_gather:
        return is_repeated(program_, op) ? StepCause::exposed_gathers_repeated
                                         : StepCause::exposed_gathers;
      case OpKind::reduce_scatter:
        return StepCause::exposed_reduce_scatters;
      case OpKind::all_to_all:
        return is_repeated(program_, op) ? StepCause::exposed_exchanges_repeated
                                         : StepCause::exposed_exchanges;
      case OpKind::copy_d2h:
        return StepCause::exposed_d2h;
      case OpKind::copy_h2d:
        return StepCause::exposed_h2d;
      default:
        check(false, "the compute lane waits for ", op.name, ", an op of its own lane");
        return StepCause::idle;
    }
  }

  const Program& program_;
  const SimOptions& options_;
  const Machine& machine_;
  Machine without_launches_, without_quantisation_;
  StepCauses causes_;
};

}  // namespace

bool is_repeated(const Program& program, const Op& collective) {
  if (collective.recomputed) return true;
  const TensorId result = collective.outputs.front().tensor;
  bool read = false;
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops) {
      const bool reads = std::any_of(op.inputs.begin(), op.inputs.end(),
                                     [&](const Operand& input) { return input.tensor == result; });
      if (reads && !op.recomputed) return false;
      read = read || reads;
    }
  return read;
}

StepCauses causes_of(const Schedule& schedule, const Machine& machine, const SimOptions& options,
                     const Trace& trace) {
  Sorter sorter(schedule, machine, options);
  const LanePartition partition = partition_compute_lane(trace);
  for (const BusyTime& time : partition.busy)
    sorter.add(time);
  for (const WaitTime& wait : partition.waits)
    sorter.add(wait);
  sorter.add_idle(partition.idle);
  return sorter.take();
}

}  // namespace spillway
