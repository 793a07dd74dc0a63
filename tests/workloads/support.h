// What several of this room's tests write down.
#pragma once

#include <stdexcept>
#include <string>

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

}  // namespace spillway
