#include "tests/sweeps/support_runs.h"

#include <cstdlib>

#include "harness/error.h"

namespace spillway {

bool timed_tests() { return std::getenv("SPILLWAY_TIMED_TESTS") != nullptr; }

std::string label(const RunVariant& variant) {
  return variant.policy + (variant.lhs ? ", LHS on" : ", LHS off") +
         (variant.pipeline ? ", pipelined" : "") +
         (variant.rotation_copies ? ", rotation copies" : "") +
         (variant.depth > 1 ? ", depth " + std::to_string(variant.depth) : "") +
         (variant.unroll > 1 ? ", unrolled" : "") +
         (variant.resident_tail > 0 ? ", tail " + std::to_string(variant.resident_tail) : "") +
         (variant.streams != Streams::position ? text(", streams ", name_of(variant.streams)) : "");
}

std::vector<RunVariant> every_schedule(const std::vector<std::string>& policies) {
  std::vector<RunVariant> variants;
  for (const std::string& policy : policies) {
    for (const bool lhs : {false, true}) {
      variants.push_back({policy, lhs, false, false});
      variants.push_back({policy, lhs, true, false});
      variants.push_back({policy, lhs, true, true});
      variants.push_back({policy, lhs, true, false, 2});
      variants.push_back({policy, lhs, true, true, 1, 2});
      variants.push_back({policy, lhs, false, false, 1, 1, 2});
      variants.push_back({policy, lhs, true, false, 1, 1, 1});
    }
  }
  return variants;
}

Point tiny_point(const RunVariant& variant, int64_t micro_batch, int64_t seq) {
  Point point;
  point.model = "llama-tiny";
  point.policy = variant.policy;
  point.lhs = variant.lhs;
  point.pipeline = variant.pipeline;
  point.rotation_copies = variant.rotation_copies;
  point.pipeline_depth = variant.depth;
  point.unroll = variant.unroll;
  point.resident_tail = variant.resident_tail;
  point.streams = variant.streams;
  point.micro_batch = micro_batch;
  point.seq = seq;
  return point;
}

}  // namespace spillway
