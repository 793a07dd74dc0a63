// Shards and whole tensors, padded or not.
#include "harness/cuda/collectives.h"

#include <algorithm>

#include "harness/error.h"

namespace spillway {
namespace {

std::byte* at(const Buffer& buffer, int64_t element) {
  return buffer.as<std::byte>() + element * bytes_of(buffer.dtype);
}

// Calls `part` with (root, first element of the whole, elements) for the shard of each rank: none
// are beyond the whole.
template <class Part>
void for_each_shard(int64_t ranks, int64_t shard, int64_t whole, const Part& part) {
  for (int64_t root = 0; root < ranks; ++root) {
    const int64_t first = root * shard, count = std::min(shard, whole - first);
    if (count > 0) part(root, first, count);
  }
}

void gather(const Buffer& shard, const Buffer& whole, Communicator& group, CUstream_st* stream) {
  const int64_t n = shard.elements(), all = whole.elements();
  if (n * group.ranks() == all)
    return group.all_gather(at(shard, 0), at(whole, 0), n, shard.dtype, stream);
  for_each_shard(group.ranks(), n, all, [&](int64_t root, int64_t first, int64_t count) {
    group.broadcast(at(shard, 0), at(whole, first), count, shard.dtype, root, stream);
  });
}

void scatter_mean(const Buffer& whole, const Buffer& shard, Communicator& group,
                  CUstream_st* stream) {
  const int64_t n = shard.elements(), all = whole.elements();
  if (n * group.ranks() == all)
    return group.reduce_scatter(at(whole, 0), at(shard, 0), n, shard.dtype, stream);
  for_each_shard(group.ranks(), n, all, [&](int64_t root, int64_t first, int64_t count) {
    group.reduce(at(whole, first), at(shard, 0), count, shard.dtype, root, stream);
  });
}

void exchange(const OpCall& call, Communicator& group, CUstream_st* stream) {
  if (group.ranks() != 1)
    throw RunError(text("all_to_all between ", group.ranks(),
                        " devices: how many rows go to each is known to the devices alone"));
  const Buffer &from = call.inputs[0], &to = call.outputs[0];
  group.all_gather(at(from, 0), at(to, 0), std::min(from.elements(), to.elements()), from.dtype,
                   stream);
}

}  // namespace

void run_collective(const OpCall& call, Communicator& communicator, CUstream_st* stream) {
  const OpKind kind = call.op->kind;
  if (kind == OpKind::all_to_all) return exchange(call, communicator, stream);
  check(kind == OpKind::all_gather || kind == OpKind::reduce_scatter, "op ", call.op->name,
        " is no collective");
  communicator.begin();
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (kind == OpKind::all_gather)
      gather(call.inputs[i], call.outputs[i], communicator, stream);
    else
      scatter_mean(call.inputs[i], call.outputs[i], communicator, stream);
  }
  communicator.end();
}

Communicators::Communicators(const Program& program, const Open& open) {
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops) {
      const int64_t ranks = op.attributes.devices;
      if (lane_of(op) == Lane::collective && !groups_.contains(ranks)) groups_[ranks] = open(ranks);
    }
}

}  // namespace spillway
