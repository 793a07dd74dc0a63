// Accesses in words, for what a race check finds.
#include <algorithm>

#include "harness/error.h"
#include "harness/event_accesses.h"

namespace spillway {
namespace {

std::vector<Access> accesses_of(const Schedule& schedule, const Unrolled& unrolled, int e) {
  const BodyRun& run = unrolled.run_of(e);
  std::vector<Access> accesses;
  for_each_access(
      schedule, run.segment, unrolled.at(e), [&](AccessKind kind, const Operand& operand, int) {
        const int64_t bytes = schedule.program.at(operand.tensor).slice_bytes();
        const ByteRange range = range_of(schedule.program, operand, run.iteration);
        accesses.push_back(
            {kind, e, operand.tensor, range.begin / bytes, (range.begin + range.size) / bytes});
      });
  return accesses;
}

bool meet(const Program& program, const Plan& plan, const Access& a, const Access& b) {
  const bool reads = a.kind == AccessKind::read && b.kind == AccessKind::read;
  const Tensor &x = program.at(a.tensor), &y = program.at(b.tensor);
  const int64_t p = plan.offset[static_cast<size_t>(a.tensor)];
  const int64_t q = plan.offset[static_cast<size_t>(b.tensor)];
  return !reads && x.space == y.space && p >= 0 && q >= 0 &&
         p + a.first_slice * x.slice_bytes() < q + b.end_slice * y.slice_bytes() &&
         q + b.first_slice * y.slice_bytes() < p + a.end_slice * x.slice_bytes();
}

}  // namespace

std::string describe(const Schedule& schedule, const Plan& plan, const Unrolled& unrolled,
                     const Access& access) {
  static constexpr const char* kinds[] = {"initial value", "allocation", "read", "write",
                                          "release"};
  const Program& program = schedule.program;
  const Tensor& tensor = program.at(access.tensor);
  const int64_t begin = plan.offset[static_cast<size_t>(access.tensor)];
  std::string out = text(kinds[static_cast<size_t>(access.kind)], " of \"", tensor.name,
                         "\" (bytes ", begin + access.first_slice * tensor.slice_bytes(), " to ",
                         begin + access.end_slice * tensor.slice_bytes(),
                         tensor.space == Space::host ? ", host)" : ")");
  if (access.event < 0) return out;
  const Event& event = unrolled.at(access.event);
  const BodyRun& run = unrolled.run_of(access.event);
  const Segment& segment = program.segments[index_of(run.segment)];
  if (event.kind == EventKind::step) {
    const auto& steps = schedule.segments[index_of(run.segment)].lanes[index_of(event.lane)];
    out += text(" at op \"", segment.ops[index_of(steps[index_of(event.position)].op)].name, "\"");
  } else {
    out += event.kind == EventKind::enter ? " on entering" : " on leaving";
  }
  return text(out, ", segment \"", segment.name, "\", iteration ", run.iteration, " of step ",
              run.step, ", lane ", name_of(event.lane));
}

std::string describe_conflict(const Schedule& schedule, const Plan& plan, const Unrolled& unrolled,
                              int earlier_event, int later_event) {
  for (const Access& later : accesses_of(schedule, unrolled, later_event)) {
    for (const Access& earlier : accesses_of(schedule, unrolled, earlier_event)) {
      if (meet(schedule.program, plan, earlier, later))
        return describe(schedule, plan, unrolled, earlier) + " and " +
               describe(schedule, plan, unrolled, later);
    }
  }
  check(false, "events ", earlier_event, " and ", later_event, " touch no common bytes");
  return {};
}

}  // namespace spillway
