// all_gather:     {shard[n]} -> {full}: the shards of all devices, in rank order. n is the number
//                 of elements over devices, rounded up: the last shards may be padded.
// reduce_scatter: {full gradient} -> {shard[n]}: this device's shard of the mean over devices.
// all_to_all:     {x[R,D]} -> {y[S,D]}: rows of x to the devices that hold their experts, or back;
//                 S is what this device is planned to receive. y is sorted by expert, then by the
//                 device that sent. Every expert has as many rows, or
//                 {x, from[F] i32, to[G] i32} says where those of each begin in x and in y.
//                 {from[F] i32} -> {to[G] i32}: the devices tell each other these offsets.
// One process cannot run them: no CPU kernel.
#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

std::string check_group(const Program& program, const Op& op, const Operand& shard,
                        const Operand& full) {
  const int64_t n = elements_of(shape_of(program, shard)),
                all = elements_of(shape_of(program, full));
  const int64_t devices = op.attributes.devices;
  if (devices < 1) return text("attribute devices is ", devices, ", expected at least 1");
  if (n != (all + devices - 1) / devices) {
    return text("shards of ", n, " elements on ", devices, " devices cannot make ", all,
                " elements");
  }
  return require_distinct(op);
}

std::string check_gather(const Program& program, const Op& op) {
  if (op.inputs.size() != 1 || op.outputs.size() != 1) return "has one input and one output";
  if (program.at(op.inputs[0].tensor).dtype != program.at(op.outputs[0].tensor).dtype) {
    return "shard and gathered tensor differ in dtype";
  }
  return check_group(program, op, op.inputs[0], op.outputs[0]);
}

std::string check_reduce(const Program& program, const Op& op) {
  if (op.inputs.size() != 1 || op.outputs.size() != 1) return "has one input and one output";
  return check_group(program, op, op.outputs[0], op.inputs[0]);
}

OpCost cost_gather(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op),
          .group_bytes = static_cast<double>(bytes_of(program, op.outputs[0]))};
}

OpCost cost_reduce(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op),
          .group_bytes = static_cast<double>(bytes_of(program, op.inputs[0]))};
}

std::string check_exchange(const Program& program, const Op& op) {
  const bool of_offsets =
      op.inputs.size() == 1 && program.at(op.inputs[0].tensor).dtype == DType::i32;
  const Signature s = of_offsets ? match(program, op, "from[F]:i32 -> to[G]:i32")
                      : op.inputs.size() == 1
                          ? match(program, op, "x[R,D]:x -> y[S,D]:x")
                          : match(program, op, "x[R,D]:x from[F]:i32 to[G]:i32 -> y[S,D]:x");
  if (!s.error.empty()) return s.error;
  const std::string positive = require_positive({{"devices", op.attributes.devices}});
  return positive.empty() ? require_distinct(op) : positive;
}

OpCost cost_exchange(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op),
          .group_bytes = static_cast<double>(bytes_of(program, op.inputs[0]))};
}

}  // namespace

const OpInfo all_gather_info = {
    OpKind::all_gather, "all_gather", Lane::collective, "shards of all devices, whole",
    check_gather,       cost_gather,  nullptr};
const OpInfo reduce_scatter_info = {
    OpKind::reduce_scatter, "reduce_scatter", Lane::collective, "mean over devices, one shard each",
    check_reduce,           cost_reduce,      nullptr};

const OpInfo all_to_all_info = {
    OpKind::all_to_all, "all_to_all",  Lane::collective, "rows to the devices of their experts",
    check_exchange,     cost_exchange, nullptr};

}  // namespace spillway
