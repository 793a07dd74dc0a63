// copy_d2h, copy_h2d, copy_d2d: {source[*]} -> {destination[*]}, the same bytes in another place.
// The copy lanes of an executor may move the bytes themselves (paced); these kernels say what a
// copy means.
#include <cstring>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

const char* name_of(Space space) { return space == Space::device ? "device" : "host"; }

std::string check_copy(const Program& program, const Op& op, Space from, Space to) {
  if (op.inputs.size() != 1 || op.outputs.size() != 1) return "a copy has one input and one output";
  const Tensor& source = program.at(op.inputs[0].tensor);
  const Tensor& destination = program.at(op.outputs[0].tensor);
  if (source.space != from || destination.space != to) {
    return text("copies ", source.name, " (", name_of(source.space), ") to ", destination.name,
                " (", name_of(destination.space), "), expected ", name_of(from), " to ",
                name_of(to));
  }
  const int64_t read = bytes_of(program, op.inputs[0]), written = bytes_of(program, op.outputs[0]);
  if (read != written || source.dtype != destination.dtype) {
    return text("copies ", read, " bytes of ", name_of(source.dtype), " (", source.name, ") to ",
                written, " bytes of ", name_of(destination.dtype), " (", destination.name, ")");
  }
  return require_distinct(op);
}

std::string check_d2h(const Program& p, const Op& op) {
  return check_copy(p, op, Space::device, Space::host);
}
std::string check_h2d(const Program& p, const Op& op) {
  return check_copy(p, op, Space::host, Space::device);
}
std::string check_d2d(const Program& p, const Op& op) {
  return check_copy(p, op, Space::device, Space::device);
}

OpCost cost_link(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op),
          .link_bytes = static_cast<double>(bytes_of(program, op.inputs[0]))};
}

OpCost cost_d2d(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

size_t byte_count(const Buffer& buffer) {
  return static_cast<size_t>(buffer.elements() * bytes_of(buffer.dtype));
}

// On a copy lane: the pool belongs to the compute lane and is not used.
void run_link(const OpCall& call, ThreadPool&) {
  std::memcpy(call.outputs[0].data, call.inputs[0].data, byte_count(call.inputs[0]));
}

void run_d2d(const OpCall& call, ThreadPool& pool) {
  const std::byte* from = call.inputs[0].as<std::byte>();
  std::byte* to = call.outputs[0].as<std::byte>();
  for_blocks(pool, static_cast<int64_t>(byte_count(call.inputs[0])), 1 << 20,
             [&](int64_t first, int64_t count) {
               std::memcpy(to + first, from + first, static_cast<size_t>(count));
             });
}

}  // namespace

const OpInfo copy_d2h_info = {OpKind::copy_d2h, "copy_d2h", Lane::d2h, "device to host, same bytes",
                              check_d2h,        cost_link,  run_link};
const OpInfo copy_h2d_info = {OpKind::copy_h2d, "copy_h2d", Lane::h2d, "host to device, same bytes",
                              check_h2d,        cost_link,  run_link};
const OpInfo copy_d2d_info = {
    OpKind::copy_d2d, "copy_d2d", Lane::compute, "device to device, same bytes",
    check_d2d,        cost_d2d,   run_d2d};

}  // namespace spillway
