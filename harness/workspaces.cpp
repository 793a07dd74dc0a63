// A workspace is planned with room to align it: offsets of a plan are multiples of less.
#include "harness/workspaces.h"

#include <algorithm>

#include "harness/error.h"
#include "harness/plan.h"

namespace spillway {
namespace {

constexpr int64_t room_to_align = workspace_alignment - arena_alignment;

TensorId add_workspace(Program& program, const std::string& of, int64_t bytes) {
  Tensor tensor;
  tensor.name = "workspace of " + of;
  tensor.dtype = DType::bf16;  // of no meaning but its two bytes
  tensor.shape = {(bytes + 1) / 2 + room_to_align / 2};
  tensor.role = Role::workspace;
  tensor.extent = Extent::local;
  return program.add(std::move(tensor));
}

bool is_operand(const Op& op, TensorId id) {
  const auto names = [id](const Operand& operand) { return operand.tensor == id; };
  return std::any_of(op.inputs.begin(), op.inputs.end(), names) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), names);
}

}  // namespace

Schedule with_workspaces(Schedule schedule, const WorkspaceBytes& bytes) {
  Program& program = schedule.program;
  for (size_t s = 0; s < schedule.segments.size(); ++s) {
    for (size_t lane = 0; lane < lane_count; ++lane) {
      for (LaneStep& step : schedule.segments[s].lanes[lane]) {
        if (step.kind != StepKind::run) continue;
        const Segment& segment = program.segments[s];
        const Op& op = segment.ops[index_of(step.op)];
        const int64_t wanted = bytes(program, op);
        check(wanted >= 0, "op ", op.name, " of segment ", segment.name, " wants ", wanted,
              " bytes of scratch memory");
        if (wanted == 0) continue;
        check(lane == index_of(Lane::compute), "op ", op.name, " of segment ", segment.name,
              " wants scratch memory on a lane that allocates none");
        const TensorId id = add_workspace(program, segment.name + "/" + op.name, wanted);
        step.allocate.push_back(id);
        step.release.push_back(id);
      }
    }
  }
  return schedule;
}

std::span<std::byte> workspace_of(const LaneStep& step, const Op& op, const Arenas& arenas) {
  for (const TensorId id : step.allocate) {
    const Tensor& tensor = arenas.program->at(id);
    if (tensor.role != Role::workspace || is_operand(op, id)) continue;
    std::byte* begin = arenas.address(id);
    const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) %
                                           static_cast<uintptr_t>(workspace_alignment));
    if (past != 0) begin += workspace_alignment - past;
    return {begin, static_cast<size_t>(tensor.bytes() - room_to_align)};
  }
  return {};
}

}  // namespace spillway
