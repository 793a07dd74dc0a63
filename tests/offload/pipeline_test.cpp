// Rotation: what moves where, and that every rotated program computes what the program did.
#include "offload/pipeline.h"

#include <gmock/gmock.h>

#include "offload/policy.h"
#include "tests/offload/support.h"
#include "tests/support/interpreter.h"

namespace spillway {
namespace {

using testing::ElementsAre;

using Values = std::map<std::string, std::vector<uint64_t>>;

Values after_two_steps(const Program& program) {
  Interpreter run(program);
  run.step();
  run.step();
  return run.persistent();
}

std::vector<std::string> segment_names(const Program& program) {
  std::vector<std::string> names;
  for (const Segment& segment : program.segments) {
    names.push_back(segment.name + "*" + std::to_string(segment.trips));
  }
  return names;
}

constexpr PipelineOptions copies{.host_copies = true};

TEST(Pipeline, NothingToRotateChangesNothing) {
  const Program program = with_policy(mlp_stack(4), "full");
  const Program same = pipeline(program, {.host_copies = true, .collectives = true});
  EXPECT_EQ(segment_names(same), segment_names(program));
  EXPECT_EQ(same.segments[3].forward_segment, 1);
  const Program off = pipeline(with_policy(mlp_stack(4), "mlpwi_0=offload"), {});
  EXPECT_EQ(segment_names(off), segment_names(program));
}

TEST(Pipeline, HostCopiesMoveOneIterationAndUseRings) {
  const Program program = pipeline(with_policy(mlp_stack(4), "mlpwi_0=offload"), copies);
  EXPECT_THAT(segment_names(program),
              ElementsAre("embed*1", "layers.forward.prologue*1", "layers.forward*3",
                          "layers.forward.epilogue*1", "head*1", "layers.backward.prologue*1",
                          "layers.backward*3", "layers.backward.epilogue*1", "optimizer*1"));
  EXPECT_THAT(op_names(segment_named(program, "layers.forward")),
              ElementsAre("d2h.gate", "norm", "gate", "up", "swiglu", "down", "residual"));
  EXPECT_EQ(segment_named(program, "layers.forward.prologue").ops.size(), 6u);
  EXPECT_THAT(op_names(segment_named(program, "layers.forward.epilogue")),
              ElementsAre("d2h.gate@layers.forward.epilogue"));
  EXPECT_THAT(op_names(segment_named(program, "layers.backward.prologue")),
              ElementsAre("h2d.gate@layers.backward.prologue"));
  for (const char* name : {"gate", "gate.reload"}) {
    const Tensor& ring = tensor_named(program, name);
    EXPECT_EQ(ring.extent, Extent::step) << name;
    EXPECT_EQ(ring.slices, 2) << name;
    EXPECT_TRUE(ring.ring) << name;
    EXPECT_EQ(ring.role, Role::in_flight) << name;
  }
  // Loop iteration j writes the gate of layer j + 1 while it moves the gate of layer j.
  const Segment& forward = segment_named(program, "layers.forward");
  EXPECT_EQ(op_named(forward, "gate").outputs[0].index, Index::at(1, 1));
  EXPECT_EQ(op_named(forward, "d2h.gate").inputs[0].index, Index::at(1, 0));
  EXPECT_EQ(op_named(forward, "d2h.gate").outputs[0].index, Index::at(1, 0));
  // Backward iteration j works on layer 3 - j while layer 2 - j comes in.
  const Segment& backward = segment_named(program, "layers.backward");
  EXPECT_EQ(op_named(backward, "h2d.gate").inputs[0].index, Index::at(-1, 2));
  EXPECT_EQ(op_named(backward, "down.wgrad").outputs[0].index, Index::at(-1, 3));
  for (const Segment& segment : program.segments)
    EXPECT_EQ(segment.forward_segment, -1);
}

TEST(Pipeline, ACarryThatIsMovedLateNeedsOneSlotMore) {
  const Program program = with_policy(mlp_stack(4), "decoder_layer_input=offload");
  EXPECT_EQ(tensor_named(program, "hidden").slices, 2);
  EXPECT_EQ(tensor_named(pipeline(program, copies), "hidden").slices, 3);
}

TEST(Pipeline, RotationCopiesReplaceRings) {
  const Program program = pipeline(with_policy(mlp_stack(4), "mlpwi_0=offload"),
                                   {.host_copies = true, .rotation_copies = true});
  for (const char* name : {"layers.forward.gate.carried", "gate.reload"}) {
    EXPECT_EQ(tensor_named(program, name).slices, 1) << name;
    EXPECT_EQ(tensor_named(program, name).extent, Extent::step) << name;
  }
  EXPECT_EQ(tensor_named(program, "gate").extent, Extent::local);
  const std::vector<std::string> forward = op_names(segment_named(program, "layers.forward"));
  EXPECT_EQ(forward[0], "d2d.gate");
  EXPECT_EQ(forward[1], "d2h.gate");
  EXPECT_EQ(forward.back(), "carry.gate");
  const std::vector<std::string> backward = op_names(segment_named(program, "layers.backward"));
  EXPECT_EQ(backward[backward.size() - 2], "h2d.gate");
  EXPECT_EQ(backward.back(), "d2d.gate");
  EXPECT_EQ(tensor_named(program, "layers.forward.gate.staging").extent, Extent::local);
  EXPECT_EQ(tensor_named(program, "layers.backward.gate.reload.staging").extent, Extent::local);
}

TEST(Pipeline, CollectivesReachOneIterationEachWay) {
  const Program program =
      pipeline(with_policy(sharded_mlp_stack(4), "full"), {.collectives = true});
  EXPECT_THAT(
      segment_names(program),
      ElementsAre("embed*1", "layers.forward.prologue*1", "layers.forward*3",
                  "layers.forward.epilogue*1", "head*1", "layers.backward.prologue*1",
                  "layers.backward.prologue2*1", "layers.backward*2", "layers.backward.epilogue*1",
                  "layers.backward.epilogue2*1", "optimizer*1"));
  const std::vector<std::string> backward = op_names(segment_named(program, "layers.backward"));
  EXPECT_EQ(backward[0], "scatter.down");
  // The writes stand at the end, so that the scatters have the whole body.
  EXPECT_THAT(std::vector<std::string>(backward.end() - 4, backward.end()),
              ElementsAre("write.down", "write.gate", "write.up", "write.norm"));
  EXPECT_EQ(tensor_named(program, "b.gate.full").slices, 2);
  EXPECT_EQ(tensor_named(program, "gate.gradient.full").slices, 2);
  EXPECT_EQ(tensor_named(program, "b.gate.shard").extent, Extent::local);
}

TEST(Pipeline, DepthReachesFurtherWithASlotMoreEach) {
  const Program program =
      pipeline(with_policy(mlp_stack(6), "mlpwi_0=offload"), {.host_copies = true, .depth = 2});
  EXPECT_THAT(
      segment_names(program),
      ElementsAre("embed*1", "layers.forward.prologue*1", "layers.forward.prologue2*1",
                  "layers.forward*4", "layers.forward.epilogue*1", "layers.forward.epilogue2*1",
                  "head*1", "layers.backward.prologue*1", "layers.backward.prologue2*1",
                  "layers.backward*4", "layers.backward.epilogue*1", "layers.backward.epilogue2*1",
                  "optimizer*1"));
  for (const char* name : {"gate", "gate.reload"})
    EXPECT_EQ(tensor_named(program, name).slices, 3) << name;
  // Loop iteration j works on layer j + 2 while the gate of layer j leaves, and backward on layer
  // 5 - j while that of layer 3 - j comes in.
  const Segment& forward = segment_named(program, "layers.forward");
  EXPECT_EQ(op_named(forward, "gate").outputs[0].index, Index::at(1, 2));
  EXPECT_EQ(op_named(forward, "d2h.gate").outputs[0].index, Index::at(1, 0));
  const Segment& backward = segment_named(program, "layers.backward");
  EXPECT_EQ(op_named(backward, "h2d.gate").inputs[0].index, Index::at(-1, 3));
  EXPECT_EQ(op_named(backward, "down.wgrad").outputs[0].index, Index::at(-1, 5));
  EXPECT_THAT(op_names(segment_named(program, "layers.backward.prologue2")),
              ElementsAre("h2d.gate@layers.backward.prologue2"));
}

// Three layers at depth 8: every write follows all of forward, every read precedes all of backward,
// and a ring has no slot that nobody would use.
TEST(Pipeline, ADepthBeyondTheLoopIsItsTrips) {
  const Program program =
      pipeline(with_policy(mlp_stack(3), "mlpwi_0=offload"), {.host_copies = true, .depth = 8});
  EXPECT_EQ(tensor_named(program, "gate").slices, 3);
  EXPECT_THAT(op_names(segment_named(program, "layers.forward.epilogue")),
              ElementsAre("d2h.gate@layers.forward.epilogue"));
  EXPECT_EQ(segment_named(program, "layers.forward.prologue3").ops.size(), 6u);
  for (const Segment& segment : program.segments)
    EXPECT_EQ(segment.trips, 1) << segment.name;
}

// Seven layers: one prologue, an odd iteration, then pairs.
TEST(Pipeline, UnrolledTwiceTheBackwardNeedsNoRotationCopy) {
  const Program program = pipeline(with_policy(mlp_stack(8), "mlpwi_0=offload"),
                                   {.host_copies = true, .rotation_copies = true, .unroll = 2});
  EXPECT_THAT(segment_names(program),
              ElementsAre("embed*1", "layers.forward.prologue*1", "layers.forward.odd*1",
                          "layers.forward*3", "layers.forward.epilogue*1", "head*1",
                          "layers.backward.prologue*1", "layers.backward.odd*1",
                          "layers.backward*3", "layers.backward.epilogue*1", "optimizer*1"));
  const Segment& forward = segment_named(program, "layers.forward");
  EXPECT_THAT(op_names(forward),
              ElementsAre("d2d.gate", "d2h.gate", "norm", "gate", "up", "swiglu", "down",
                          "residual", "d2d.gate#2", "d2h.gate#2", "norm#2", "gate#2", "up#2",
                          "swiglu#2", "down#2", "residual#2"));
  // Layer 0 leaves in the odd iteration, layer 1 + 2j and 2 + 2j in pair j.
  EXPECT_EQ(op_named(forward, "d2h.gate").outputs[0].index, Index::at(2, 1));
  EXPECT_EQ(op_named(forward, "d2h.gate#2").outputs[0].index, Index::at(2, 2));
  for (const Op& op : segment_named(program, "layers.backward").ops)
    EXPECT_NE(op.kind, OpKind::copy_d2d) << op.name;
  EXPECT_EQ(tensor_named(program, "gate.reload").slices, 2);
  EXPECT_EQ(tensor_named(program, "gate").slices, 1);
}

TEST(Pipeline, AnEvenLoopUnrollsWithoutAnOddIteration) {
  const Program program =
      pipeline(with_policy(mlp_stack(7), "mlpwi_0=offload"), {.host_copies = true, .unroll = 2});
  EXPECT_EQ(segment_named(program, "layers.forward").trips, 3);
  for (const Segment& segment : program.segments)
    EXPECT_THAT(segment.name, testing::Not(testing::HasSubstr(".odd")));
  // A loop that nothing rotates is not unrolled.
  const Program plain =
      pipeline(with_policy(mlp_stack(7), "full"), {.host_copies = true, .unroll = 2});
  EXPECT_EQ(segment_named(plain, "layers.forward").trips, 7);
}

// Rotations with and without collectives and copies, deeper ones, unrolled ones.
std::vector<PipelineOptions> every_rotation() {
  std::vector<PipelineOptions> all;
  for (int bits = 0; bits < 8; ++bits) {
    for (int64_t depth : {1, 2, 3, 9}) {
      for (int64_t unroll : {1, 2}) {
        const bool by_copy = (bits & 4) != 0, moves = (bits & 1) != 0;
        if (depth > 1 && (by_copy || !moves)) continue;
        all.push_back({moves, (bits & 2) != 0, by_copy, depth, unroll});
      }
    }
  }
  return all;
}

// The strong test: symbolically executed, a rotated program leaves the same weights, optimizer
// state and gradients, for every combination of options and for loops too short to have a steady
// part.
TEST(Pipeline, RotatedProgramsComputeTheSame) {
  for (int64_t layers = 1; layers <= 7; ++layers) {
    for (const auto& stack : {mlp_stack, sharded_mlp_stack}) {
      const Program built = stack(layers);
      Interpreter meaning(built, Stage::built);
      meaning.step();
      meaning.step();
      for (const char* policy :
           {"full", "minimal", "minimal_offloaded", "mlpwi_0=device,mlpwi_1=offload",
            "decoder_layer_input=offload", "decoder_layer_input=offload,mlpwi_0=offload"}) {
        const Program program = with_policy(built, policy);
        for (const PipelineOptions& options : every_rotation()) {
          EXPECT_EQ(after_two_steps(pipeline(program, options)), meaning.persistent())
              << policy << ", layers " << layers << ", copies " << options.host_copies
              << ", collectives " << options.collectives << ", rotation copies "
              << options.rotation_copies << ", depth " << options.depth << ", unroll "
              << options.unroll;
        }
      }
    }
  }
}

}  // namespace
}  // namespace spillway
