// The last layers keep what the others offload: where loops are cut, which slices each part means,
// and that nothing else changes.
#include <gmock/gmock.h>

#include "offload/pipeline.h"
#include "offload/policy.h"
#include "tests/offload/support.h"
#include "tests/support/interpreter.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

PolicyResult with_tail(const Program& built, const std::string& policy, int64_t tail) {
  return apply_policy(built, parse_policy(policy), tail);
}

std::vector<std::string> parts_of(const Program& program) {
  std::vector<std::string> names;
  for (const Segment& segment : program.segments)
    names.push_back(segment.name + "*" + std::to_string(segment.trips));
  return names;
}

std::map<std::string, std::vector<uint64_t>> values_after_two_steps(const Program& program) {
  Interpreter run(program);
  run.step();
  run.step();
  return run.persistent();
}

TEST(ResidentTail, CutsBothLoopsAndMeansTheSameSlices) {
  const Program program = with_tail(mlp_stack(6), "mlpwi_0=offload", 2).program;
  EXPECT_THAT(parts_of(program),
              ElementsAre("embed*1", "layers.forward*4", "layers.forward.tail*2", "head*1",
                          "layers.backward.tail*2", "layers.backward*4", "optimizer*1"));
  EXPECT_EQ(tensor_named(program, "gate.host").slices, 4);
  const Tensor& kept = tensor_named(program, "gate.tail");
  EXPECT_EQ(kept.slices, 2);
  EXPECT_EQ(kept.role, Role::kept);
  EXPECT_EQ(kept.extent, Extent::step);
  for (const char* name : {"layers.forward.tail", "layers.backward.tail"})
    for (const Op& op : segment_named(program, name).ops)
      EXPECT_TRUE(op.kind != OpKind::copy_d2h && op.kind != OpKind::copy_h2d) << op.name;
  // Forward: layers 0 to 3, then 4 and 5, whose residual begins at 0.
  const Segment& tail = segment_named(program, "layers.forward.tail");
  EXPECT_EQ(op_named(tail, "gate.tail").outputs[0].index, Index::at(1, 0));
  EXPECT_EQ(op_named(tail, "gate.tail").inputs[1].index, Index::at(1, 4));
  EXPECT_EQ(op_named(segment_named(program, "layers.forward"), "gate").inputs[1].index,
            Index::at(1, 0));
  // Backward: layers 5 and 4, then 3 to 0.
  const Segment& first = segment_named(program, "layers.backward.tail");
  EXPECT_EQ(op_named(first, "down.wgrad.tail").outputs[0].index, Index::at(-1, 5));
  const Segment& rest = segment_named(program, "layers.backward");
  EXPECT_EQ(op_named(rest, "down.wgrad").outputs[0].index, Index::at(-1, 3));
  EXPECT_EQ(op_named(rest, "h2d.gate").inputs[0].index, Index::at(-1, 3));
}

// The layer's input is a ring of two where it is moved; two layers that keep theirs need three
// slots: their inputs and what leaves the last.
TEST(ResidentTail, ACarryKeepsASlotForEachLayerOfTheTail) {
  const Program program = with_tail(mlp_stack(6), "decoder_layer_input=offload", 2).program;
  const Tensor& hidden = tensor_named(program, "hidden");
  EXPECT_EQ(hidden.slices, 3);
  EXPECT_TRUE(hidden.ring);
  EXPECT_EQ(tensor_named(program, "hidden.host").slices, 4);
}

TEST(ResidentTail, AsManyLayersAsTheModelHasIsDevice) {
  const std::string device = dump(with_policy(mlp_stack(4), "mlpwi_0=device,mlpwi_1=device"));
  for (int64_t tail : {4, 5, 100}) {
    const PolicyResult all = with_tail(mlp_stack(4), "mlpwi_0=offload,mlpwi_1=device", tail);
    EXPECT_EQ(dump(all.program), device);
    EXPECT_EQ(all.summary.offloaded_bytes, 0);
    EXPECT_THAT(all.summary.text(), HasSubstr("the whole model"));
  }
}

TEST(ResidentTail, NothingIsCutWhereNothingWouldLeave) {
  const Program program = with_tail(mlp_stack(4), "mlpwi_0=device", 2).program;
  EXPECT_EQ(dump(program), dump(with_policy(mlp_stack(4), "mlpwi_0=device")));
  EXPECT_EQ(dump(with_tail(mlp_stack(4), "mlpwi_0=offload", 0).program),
            dump(with_policy(mlp_stack(4), "mlpwi_0=offload")));
}

// A layer's gate is 8 rows of 24 f32: 768 bytes.
TEST(ResidentTail, TheSummarySaysWhatIsKeptByIt) {
  const PolicySummary summary = with_tail(mlp_stack(6), "mlpwi_0=offload", 2).summary;
  EXPECT_EQ(summary.offloaded_bytes, 4 * 768);
  const PolicySummary without = with_tail(mlp_stack(6), "mlpwi_0=offload", 0).summary;
  EXPECT_EQ(summary.kept_bytes, without.kept_bytes + 2 * 768);
  EXPECT_EQ(summary.recomputed_ops, without.recomputed_ops);
  for (const PolicySummary::Row& row : summary.rows) {
    if (row.name != "mlpwi_0") continue;
    EXPECT_EQ(row.tensors, 1);
    EXPECT_EQ(row.bytes, 4 * 768);
    EXPECT_EQ(row.resident_bytes, 2 * 768);
  }
  EXPECT_THAT(summary.text(), HasSubstr("the last 2 layers keep mlpwi_0"));
  EXPECT_THAT(without.text(), Not(HasSubstr("the last")));
}

// The front part's last write has the tail's first layer beside it, its first read the tail's last.
TEST(ResidentTail, PipelinedALayerOfTheTailStandsBesideTheCopies) {
  const Program program =
      pipeline(with_tail(mlp_stack(8), "mlpwi_0=offload", 3).program, {.host_copies = true});
  EXPECT_THAT(parts_of(program),
              ElementsAre("embed*1", "layers.forward.prologue*1", "layers.forward*4",
                          "layers.forward.epilogue*1", "layers.forward.tail.first*1",
                          "layers.forward.tail*2", "head*1", "layers.backward.tail*2",
                          "layers.backward.tail.last*1", "layers.backward.prologue*1",
                          "layers.backward*4", "layers.backward.epilogue*1", "optimizer*1"));
  // Layer 5 alone, then 6 and 7.
  const Segment& first = segment_named(program, "layers.forward.tail.first");
  EXPECT_EQ(op_named(first, "gate.tail@layers.forward.tail.first").inputs[1].index,
            Index::at(0, 5));
  EXPECT_EQ(op_named(segment_named(program, "layers.forward.tail"), "gate.tail").inputs[1].index,
            Index::at(1, 6));
  const Segment& last = segment_named(program, "layers.backward.tail.last");
  EXPECT_EQ(op_named(last, "down.wgrad.tail@layers.backward.tail.last").outputs[0].index,
            Index::at(0, 5));
}

// Symbolically executed, every tail leaves the same weights, optimizer state and gradients.
TEST(ResidentTail, EveryTailComputesTheSame) {
  for (const auto& stack : {mlp_stack, sharded_mlp_stack}) {
    for (int64_t layers = 1; layers <= 6; ++layers) {
      const Program built = stack(layers);
      Interpreter meaning(built, Stage::built);
      meaning.step();
      meaning.step();
      for (int64_t tail = 1; tail <= layers + 1; ++tail) {
        for (const char* policy : {"minimal_offloaded", "mlpwi_0=device,mlpwi_1=offload",
                                   "decoder_layer_input=offload,mlpwi_0=offload"}) {
          const Program program = with_tail(built, policy, tail).program;
          for (const PipelineOptions& options :
               {PipelineOptions{}, PipelineOptions{.host_copies = true},
                PipelineOptions{true, true, true}, PipelineOptions{true, true, false, 2, 2}}) {
            EXPECT_EQ(values_after_two_steps(pipeline(program, options)), meaning.persistent())
                << policy << ", layers " << layers << ", tail " << tail << ", depth "
                << options.depth;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace spillway
