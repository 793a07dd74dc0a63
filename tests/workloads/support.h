// What several of this room's tests write down.
#pragma once

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "workloads/workload.h"

namespace spillway {

inline WorkloadOptions point(int64_t batch, int64_t seq, Precision precision = Precision::bf16) {
  WorkloadOptions options;
  options.micro_batch = batch;
  options.seq = seq;
  options.precision = precision;
  return options;
}

inline const Segment& segment_of(const Program& program, const std::string& name) {
  for (const Segment& segment : program.segments)
    if (segment.name == name) return segment;
  throw std::logic_error("no segment " + name);
}

// Expects that a step writes every slice of every gradient once, and that the optimizer reads each
// gradient. Returns the number of slices.
inline int64_t gradient_slices_written_once(const Program& program) {
  std::map<std::pair<TensorId, int64_t>, int> writes;  // by gradient and first byte
  std::set<TensorId> used;
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops) {
      for (int64_t i = 0; i < segment.trips; ++i)
        for (const Operand& output : op.outputs)
          if (program.at(output.tensor).role == Role::gradient)
            ++writes[{output.tensor, range_of(program, output, i).begin}];
      if (op.kind == OpKind::adamw) used.insert(op.inputs[3].tensor);
    }
  int64_t slices = 0;
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    if (program.tensors[id].role != Role::gradient) continue;
    slices += program.tensors[id].slices;
    EXPECT_TRUE(used.contains(static_cast<TensorId>(id))) << program.tensors[id].name;
  }
  EXPECT_EQ(static_cast<int64_t>(writes.size()), slices);
  for (const auto& [place, count] : writes)
    EXPECT_EQ(count, 1) << program.at(place.first).name;
  return slices;
}

}  // namespace spillway
