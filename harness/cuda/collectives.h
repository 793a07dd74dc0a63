// The collective lane's ops as calls of a communicator: NCCL's (nccl.cpp), or in tests one that knows
// all its ranks. No CUDA header is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "harness/ops.h"

struct CUstream_st;

namespace spillway {

// One rank's end of a group of devices. Calls issue to the stream and return; those between begin()
// and end() are one transfer. They throw RunError where the library refuses. Counts are elements.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int64_t ranks() const = 0;
  virtual void begin() = 0;
  virtual void end() = 0;
  // to[ranks * count] = `from` of all, in rank order.
  virtual void all_gather(const std::byte* from, std::byte* to, int64_t count, DType dtype,
                          CUstream_st* stream) = 0;
  // to[count] = this rank's part of the mean of all from[ranks * count].
  virtual void reduce_scatter(const std::byte* from, std::byte* to, int64_t count, DType dtype,
                              CUstream_st* stream) = 0;
  // to[count] on every rank = from[count] of the root.
  virtual void broadcast(const std::byte* from, std::byte* to, int64_t count, DType dtype,
                         int64_t root, CUstream_st* stream) = 0;
  // to[count] on the root alone = mean of all from[count].
  virtual void reduce(const std::byte* from, std::byte* to, int64_t count, DType dtype,
                      int64_t root, CUstream_st* stream) = 0;
};

// Issues all_gather or reduce_scatter, all pairs of the op as one transfer. Shards whose last ones
// are padded go part by part, so that nothing is written beyond the whole tensor. all_to_all in a
// group of one gives every row back; in larger groups how many rows go where is known to the device
// alone, and it throws RunError.
void run_collective(const OpCall& call, Communicator& communicator, CUstream_st* stream);

// One communicator for each size of group that a program's collectives name, opened before its
// first step.
class Communicators {
 public:
  using Open = std::function<std::unique_ptr<Communicator>(int64_t ranks)>;
  Communicators(const Program& program, const Open& open);

  bool has(const Op& op) const { return groups_.contains(op.attributes.devices); }
  void run(const OpCall& call, CUstream_st* stream) const {
    run_collective(call, *groups_.at(call.op->attributes.devices), stream);
  }

 private:
  std::map<int64_t, std::unique_ptr<Communicator>> groups_;
};

// NCCL's group of this process alone, on the device that is current; larger ones need several
// processes. Throws RunError where this build or the machine has no NCCL, or there are more ranks.
std::unique_ptr<Communicator> open_nccl(int64_t ranks);

}  // namespace spillway
