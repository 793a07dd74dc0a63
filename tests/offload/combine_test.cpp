// Joined collectives: which ones, in which order, and that the program means the same.
#include "offload/combine.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/ops.h"
#include "offload/pipeline.h"
#include "tests/offload/support.h"
#include "tests/support/interpreter.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;

// A layer of the stack has norm of 16 and gate, up and down of 16 x 24 elements of 4 bytes: 64 and
// 1536 bytes.
Program sharded_layers() { return with_policy(sharded_mlp_stack(3), "full"); }

std::vector<std::string> collectives_of(const Program& program, const std::string& segment,
                                        OpKind kind) {
  std::vector<std::string> names;
  for (const Op& op : segment_named(program, segment).ops)
    if (op.kind == kind) names.push_back(op.name);
  return names;
}

std::vector<std::string> forward_gathers(int64_t threshold) {
  return collectives_of(combine_collectives(sharded_layers(), threshold), "layers.forward",
                        OpKind::all_gather);
}

TEST(Combine, FillsAGroupUpToTheThreshold) {
  EXPECT_THAT(forward_gathers(0),
              ElementsAre("gather.f.norm", "gather.f.gate", "gather.f.up", "gather.f.down"));
  EXPECT_THAT(forward_gathers(1599),
              ElementsAre("gather.f.norm", "gather.f.gate", "gather.f.up", "gather.f.down"));
  EXPECT_THAT(forward_gathers(1600),
              ElementsAre("gather.f.norm+1", "gather.f.up", "gather.f.down"));
  EXPECT_THAT(forward_gathers(3072), ElementsAre("gather.f.norm+1", "gather.f.up+1"));
  EXPECT_THAT(forward_gathers(3136), ElementsAre("gather.f.norm+2", "gather.f.down"));
  EXPECT_THAT(forward_gathers(1 << 20), ElementsAre("gather.f.norm+3"));
}

TEST(Combine, CutsAllShardsBeforeTheGatherAndWritesAllAfterTheScatter) {
  const Program program = combine_collectives(sharded_layers(), 1 << 20);
  const auto forward = op_names(segment_named(program, "layers.forward"));
  EXPECT_THAT(std::vector<std::string>(forward.begin(), forward.begin() + 6),
              ElementsAre("cast.f.norm", "cast.f.gate", "cast.f.up", "cast.f.down",
                          "gather.f.norm+3", "norm"));
  const auto backward = op_names(segment_named(program, "layers.backward"));
  EXPECT_THAT(std::vector<std::string>(backward.end() - 5, backward.end()),
              ElementsAre("scatter.down+3", "write.down", "write.gate", "write.up", "write.norm"));
}

TEST(Combine, CostsWhatItsPartsCost) {
  const Program apart = sharded_layers();
  const Program joined = combine_collectives(apart, 1 << 20);
  double sum = 0;
  for (const Op& op : segment_named(apart, "layers.backward").ops)
    if (op.kind == OpKind::reduce_scatter) sum += info(op.kind).cost(apart, op).group_bytes;
  const Op& op = op_named(segment_named(joined, "layers.backward"), "scatter.down+3");
  EXPECT_EQ(sum, 64 + 3 * 1536);
  EXPECT_EQ(info(op.kind).cost(joined, op).group_bytes, sum);
}

std::map<std::string, std::vector<uint64_t>> after_a_step(const Program& program) {
  Interpreter interpreter(program, Stage::complete);
  interpreter.step();
  return interpreter.persistent();
}

TEST(Combine, JoinedProgramsComputeTheSame) {
  for (const char* policy : {"full", "minimal", "minimal_offloaded", "mlpwi_0=offload"}) {
    for (int bits = 0; bits < 8; ++bits) {
      const PipelineOptions options{.host_copies = (bits & 1) != 0,
                                    .collectives = (bits & 2) != 0,
                                    .rotation_copies = (bits & 4) != 0};
      const Program program = pipeline(with_policy(sharded_mlp_stack(4), policy), options);
      const auto meaning = after_a_step(program);
      for (const int64_t threshold : {1600, 3200, 1 << 20})
        EXPECT_EQ(after_a_step(combine_collectives(program, threshold)), meaning)
            << policy << ", options " << bits << ", threshold " << threshold;
    }
  }
}

}  // namespace
}  // namespace spillway
