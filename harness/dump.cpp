// Readable listings of Programs and Schedules: for logs, --program and a reader's eyes, not parsed.
#include <sstream>

#include "harness/ops.h"
#include "harness/program.h"
#include "harness/schedule.h"

namespace spillway {
namespace {

const char* name_of(Extent extent) {
  switch (extent) {
    case Extent::persistent:
      return "persistent";
    case Extent::step:
      return "step";
    case Extent::local:
      return "local";
  }
  return "?";
}

// "layers.q" whole, "layers.q[i]", "hidden[-i+3]".
std::string operand_text(const Program& program, const Operand& operand) {
  std::ostringstream out;
  out << program.at(operand.tensor).name;
  const auto [whole, stride, offset] = operand.index;
  if (whole) return out.str();
  out << '[';
  if (stride == -1)
    out << '-';
  else if (stride != 1 && stride != 0)
    out << stride << '*';
  if (stride != 0) out << 'i';
  if (stride == 0)
    out << offset;
  else if (offset != 0)
    out << (offset > 0 ? "+" : "") << offset;
  out << ']';
  return out.str();
}

std::string operands_text(const Program& program, const std::vector<Operand>& operands) {
  std::string out;
  for (const Operand& operand : operands) {
    if (!out.empty()) out += ", ";
    out += operand_text(program, operand);
  }
  return out;
}

void dump_tensor(std::ostream& out, const Program& program, size_t id) {
  const Tensor& tensor = program.tensors[id];
  out << "  %" << id << ' ' << tensor.name << ' ' << name_of(tensor.dtype) << '[';
  for (size_t d = 0; d < tensor.shape.size(); ++d)
    out << (d ? "," : "") << tensor.shape[d];
  out << ']';
  if (tensor.slices > 1 || tensor.ring) {
    out << " x" << tensor.slices << (tensor.ring ? " ring" : "");
  }
  out << ' ' << name_of(tensor.role) << ' ' << name_of(tensor.extent);
  if (tensor.space == Space::host) out << " host";
  out << ' ' << tensor.bytes() << " B";
  for (const std::string& activation : tensor.activations)
    out << " @" << activation;
  out << '\n';
}

void tensor_list(std::ostream& out, const Program& program, const char* label,
                 const std::vector<TensorId>& tensors) {
  if (tensors.empty()) return;
  out << ' ' << label;
  for (const TensorId id : tensors)
    out << ' ' << program.at(id).name;
}

void dump_lane(std::ostream& out, const Program& program, const Segment& segment, Lane lane,
               const std::vector<LaneStep>& steps) {
  static constexpr const char* kinds[] = {"run", "start", "done"};
  if (!steps.empty()) out << "  " << name_of(lane) << '\n';
  for (size_t k = 0; k < steps.size(); ++k) {
    const LaneStep& step = steps[k];
    out << "    " << k << ' ' << kinds[static_cast<size_t>(step.kind)] << ' '
        << segment.ops[static_cast<size_t>(step.op)].name;
    for (const Wait& wait : step.waits)
      out << " wait " << name_of(wait.on) << ':' << wait.step;
    tensor_list(out, program, "allocate", step.allocate);
    tensor_list(out, program, "release", step.release);
    out << '\n';
  }
}

}  // namespace

std::string dump(const Program& program) {
  std::ostringstream out;
  out << "program " << program.name << ", " << program.devices << " device(s), batch "
      << program.batch << ", sequence " << program.seq << '\n';
  for (size_t id = 0; id < program.tensors.size(); ++id)
    dump_tensor(out, program, id);
  for (const Segment& segment : program.segments) {
    out << "segment " << segment.name << " x" << segment.trips << '\n';
    for (const Op& op : segment.ops) {
      out << "  " << op.name << ": " << operands_text(program, op.outputs) << " = "
          << info(op.kind).name << '(' << operands_text(program, op.inputs) << ")\n";
    }
  }
  return out.str();
}

std::string dump(const Schedule& schedule) {
  std::ostringstream out;
  const Program& program = schedule.program;
  out << "schedule of " << program.name << '\n';
  for (size_t s = 0; s < schedule.segments.size(); ++s) {
    const Segment& segment = program.segments[s];
    out << "segment " << segment.name << " x" << segment.trips;
    tensor_list(out, program, "enter:", schedule.segments[s].enter_allocate);
    tensor_list(out, program, "exit:", schedule.segments[s].exit_release);
    out << '\n';
    for (int lane = 0; lane < lane_count; ++lane) {
      dump_lane(out, program, segment, static_cast<Lane>(lane), schedule.segments[s].lanes[lane]);
    }
  }
  return out.str();
}

}  // namespace spillway
