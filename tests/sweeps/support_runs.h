// Points of a tiny Llama that are really executed, for tests of the whole.
#pragma once

#include <string>
#include <vector>

#include "sweeps/run.h"

namespace spillway {

// Whether tests that depend on timing run (SPILLWAY_TIMED_TESTS is set): they do where a person
// reads their figures, in scripts/acceptance.sh.
bool timed_tests();

struct RunVariant {
  std::string policy;
  bool lhs = true, pipeline = false, rotation_copies = false;
  int64_t depth = 1, unroll = 1, resident_tail = 0;
  Streams streams = Streams::position;
};

std::string label(const RunVariant& variant);

// Each policy with LHS off and on, not pipelined, pipelined by rings (one deep and two), by copies,
// unrolled; with a resident tail, pipelined and not.
std::vector<RunVariant> every_schedule(const std::vector<std::string>& policies);

// llama-tiny, four layers, one device, on the CPU executor.
Point tiny_point(const RunVariant& variant, int64_t micro_batch, int64_t seq);

}  // namespace spillway
