// all_gather:     {shard[n]} -> {full}: the shards of all devices, in rank order. n is the number
//                 of elements over devices, rounded up: the last shards may be padded.
// reduce_scatter: {full gradient} -> {shard[n]}: this device's shard of the mean over devices.
//                 Both take several pairs at once, {s1, s2, ...} -> {f1, f2, ...}: one transfer.
// all_to_all:     {x[R,D]} -> {y[S,D]}: rows of x to the devices that hold their experts, or back;
//                 S is what this device is planned to receive. y is sorted by expert, then by the
//                 device that sent. Every expert has as many rows, or
//                 {x, from[F] i32, to[G] i32} says where those of each begin in x and in y.
//                 {from[F] i32} -> {to[G] i32}: the devices tell each other these offsets.
// One process cannot run them: no CPU kernel.
#include <algorithm>
#include <vector>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

// Pairs of a shard and what it is a shard of; one or several.
std::string check_group(const Program& program, const Op& op, const std::vector<Operand>& shards,
                        const std::vector<Operand>& full) {
  const int64_t devices = op.attributes.devices;
  if (devices < 1) return text("attribute devices is ", devices, ", expected at least 1");
  if (shards.empty() || shards.size() != full.size())
    return text("has ", op.inputs.size(), " inputs and ", op.outputs.size(),
                " outputs, expected as many of each, at least one");
  for (size_t i = 0; i < shards.size(); ++i) {
    const int64_t n = elements_of(shape_of(program, shards[i])),
                  all = elements_of(shape_of(program, full[i]));
    if (n != (all + devices - 1) / devices) {
      return text("shards of ", n, " elements on ", devices, " devices cannot make ", all,
                  " elements");
    }
  }
  return require_distinct(op);
}

std::string check_gather(const Program& program, const Op& op) {
  for (size_t i = 0; i < std::min(op.inputs.size(), op.outputs.size()); ++i)
    if (program.at(op.inputs[i].tensor).dtype != program.at(op.outputs[i].tensor).dtype)
      return "shard and gathered tensor differ in dtype";
  return check_group(program, op, op.inputs, op.outputs);
}

std::string check_reduce(const Program& program, const Op& op) {
  return check_group(program, op, op.outputs, op.inputs);
}

double bytes_of(const Program& program, const std::vector<Operand>& operands) {
  double sum = 0;
  for (const Operand& operand : operands)
    sum += static_cast<double>(bytes_of(program, operand));
  return sum;
}

OpCost cost_gather(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op), .group_bytes = bytes_of(program, op.outputs)};
}

OpCost cost_reduce(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op), .group_bytes = bytes_of(program, op.inputs)};
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
