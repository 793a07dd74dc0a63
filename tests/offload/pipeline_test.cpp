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
  for (const char* name : {"gate", "gate.reload"}) {
    EXPECT_EQ(tensor_named(program, name).slices, 1) << name;
    EXPECT_EQ(tensor_named(program, name).extent, Extent::step) << name;
  }
  const std::vector<std::string> forward = op_names(segment_named(program, "layers.forward"));
  EXPECT_EQ(forward[0], "d2d.gate");
  EXPECT_EQ(forward[1], "d2h.gate");
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

// The strong test: symbolically executed, a rotated program leaves the same weights, optimizer
// state and gradients, for every combination of options and for loops too short to have a steady
// part.
TEST(Pipeline, RotatedProgramsComputeTheSame) {
  for (int64_t layers = 1; layers <= 6; ++layers) {
    for (const auto& stack : {mlp_stack, sharded_mlp_stack}) {
      const Program built = stack(layers);
      Interpreter meaning(built, Stage::built);
      meaning.step();
      meaning.step();
      for (const char* policy :
           {"full", "minimal", "minimal_offloaded", "mlpwi_0=device,mlpwi_1=offload",
            "decoder_layer_input=offload", "decoder_layer_input=offload,mlpwi_0=offload"}) {
        const Program program = with_policy(built, policy);
        for (int bits = 0; bits < 8; ++bits) {
          const PipelineOptions options{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
          EXPECT_EQ(after_two_steps(pipeline(program, options)), meaning.persistent())
              << policy << ", layers " << layers << ", options " << bits;
        }
      }
    }
  }
}

}  // namespace
}  // namespace spillway
