#include "tests/sweeps/support_schedules.h"

#include "harness/error.h"
#include "harness/ops.h"
#include "offload/policy.h"

namespace spillway {
namespace {

double rough_seconds(const Program& program, const Op& op) {
  const OpCost cost = info(op.kind).cost(program, op);
  return 1e-6 + (cost.matmul_flops + cost.attention_flops + cost.bytes) / 1e12 +
         cost.link_bytes / 1e11 + cost.group_bytes / 2e11;
}

}  // namespace

std::string label(const ScheduleVariant& v) {
  return v.policy + ", devices " + std::to_string(v.devices) + (v.lhs ? ", lhs" : "") +
         (v.rotation.host_copies ? ", pipeline" : "") +
         (v.rotation.collectives ? ", pipeline-collectives" : "") +
         (v.rotation.rotation_copies ? ", rotation-copies" : "") +
         (v.rotation.depth > 1 ? ", depth " + std::to_string(v.rotation.depth) : "") +
         (v.rotation.unroll > 1 ? ", unrolled" : "") +
         (v.resident_tail > 0 ? ", resident tail " + std::to_string(v.resident_tail) : "") +
         (v.streams != Streams::position ? text(", streams ", name_of(v.streams)) : "");
}

Schedule schedule_of(const Program& built, const ScheduleVariant& variant) {
  SchedulerOptions options;
  options.lhs = variant.lhs;
  options.seconds = rough_seconds;
  options.collectives_without_lhs = variant.collectives;
  const Program chosen =
      apply_policy(built, parse_policy(variant.policy), variant.resident_tail).program;
  OrderedProgram ordered = order_bodies(pipeline(chosen, variant.rotation), options);
  return lay_out(std::move(ordered.program), ordered.orders, variant.streams);
}

}  // namespace spillway
