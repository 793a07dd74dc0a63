// What several of this room's tests write down.
#pragma once

#include "workloads/llama.h"

namespace spillway {

inline WorkloadOptions point(int64_t batch, int64_t seq, Precision precision = Precision::bf16) {
  WorkloadOptions options;
  options.micro_batch = batch;
  options.seq = seq;
  options.precision = precision;
  return options;
}

}  // namespace spillway
