// Experts spread over ranks: what travels, what is gathered, what a device holds. Bytes counted by
// hand from the sizes of DeepSeek-V3 at micro batch 8, sequence 4096: 8 experts a token make 262,144
// rows of 7,168 (3584 MiB); an expert is 3 x 2048 x 7168 parameters.
#include <map>

#include <gmock/gmock.h>

#include "harness/error.h"
#include "harness/ops.h"
#include "harness/verify.h"
#include "tests/workloads/support.h"
#include "workloads/accounting.h"
#include "workloads/shard.h"
#include "workloads/workload.h"

namespace spillway {
namespace {

constexpr double mib = 1 << 20;
constexpr double expert_parameters = 3.0 * 2048 * 7168;

Program built(const std::string& model, bool capacity, int64_t batch, int64_t seq) {
  WorkloadOptions options = point(batch, seq);
  options.moe.capacity_path = capacity;
  return build_program(load_model(model), options);
}

// Bytes of the full buffers of one kind of collective in a segment, one iteration.
double group_bytes(const Program& program, const std::string& segment_name, OpKind kind) {
  double bytes = 0;
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops)
      if (segment.name == segment_name && op.kind == kind &&
          program.at(op.inputs[0].tensor).dtype != DType::i32)
        bytes += info(kind).cost(program, op).group_bytes;
  return bytes;
}

const Tensor& tensor_of(const Program& program, const std::string& name) {
  for (const Tensor& tensor : program.tensors)
    if (tensor.name == name) return tensor;
  throw std::logic_error("no tensor " + name);
}

TEST(ExpertParallel, IsWellFormed) {
  for (const char* model : {"deepseek-tiny", "deepseek-v3", "deepseek-v2-lite", "mixtral-8x7b"})
    for (const bool capacity : {false, true})
      for (const int64_t ranks : {2, 4})
        for (const int64_t devices : {4, 128})
          for (const double factor : {1.0, 1.3, 2.0}) {
            const Program program = shard(built(model, capacity, 3, 33), devices, {ranks, factor});
            EXPECT_NO_THROW(verify(program, Stage::built)) << model << ' ' << ranks;
          }
}

// Out and back, forward and backward.
TEST(ExpertParallel, RowsTravelFourTimesALayer) {
  for (const bool capacity : {false, true}) {
    const Program program = shard(built("deepseek-v3", capacity, 8, 4096), 128, {8, 1});
    EXPECT_EQ(group_bytes(program, "moe_layers.forward", OpKind::all_to_all), 2 * 3584 * mib);
    EXPECT_EQ(group_bytes(program, "moe_layers.backward", OpKind::all_to_all), 2 * 3584 * mib);
    EXPECT_EQ(group_bytes(program, "dense_layers.forward", OpKind::all_to_all), 0);
    for (const Segment& segment : program.segments)
      for (const Op& op : segment.ops)
        EXPECT_EQ(op.attributes.devices, op.kind == OpKind::all_to_all ? 8 : op.attributes.devices);
  }
}

// 32 experts of a layer are gathered over 16 devices instead of 256 over 128; the rest as before.
TEST(ExpertParallel, ARankGathersItsOwnExperts) {
  const Program whole = shard(built("deepseek-v3", false, 8, 4096), 128);
  const Program spread = shard(built("deepseek-v3", false, 8, 4096), 128, {8, 1});
  for (const char* segment : {"moe_layers.forward", "moe_layers.backward"})
    EXPECT_EQ(group_bytes(whole, segment, OpKind::all_gather) -
                  group_bytes(spread, segment, OpKind::all_gather),
              2 * expert_parameters * (256 - 32));
  EXPECT_EQ(group_bytes(whole, "moe_layers.backward", OpKind::reduce_scatter) -
                group_bytes(spread, "moe_layers.backward", OpKind::reduce_scatter),
            2 * expert_parameters * (256 - 32));
  EXPECT_EQ(
      tensor_of(spread, "moe_layers.forward.gathered.moe_layers.mlp.experts.up_proj.weight").shape,
      (Shape{32, 2048, 7168}));
}

// 671,026,404,352 trained parameters: each device holds one in 128 whatever the ranks, and the
// correction bias of 58 x 256 whole.
TEST(ExpertParallel, StateIsSpreadAsEvenly) {
  for (const int64_t ranks : {1, 8, 128}) {
    const Program program = shard(built("deepseek-v3", false, 1, 64), 128, {ranks, 1});
    std::map<Role, int64_t> bytes;
    for (const Tensor& tensor : program.tensors)
      if (tensor.extent == Extent::persistent) bytes[tensor.role] += tensor.bytes();
    EXPECT_EQ(bytes[Role::parameter], 4 * (671026404352 / 128 + 58 * 256)) << ranks;
    EXPECT_EQ(bytes[Role::gradient], 4 * (671026404352 / 128)) << ranks;
    EXPECT_EQ(bytes[Role::optimizer], 8 * (671026404352 / 128)) << ranks;
  }
}

// Planned rows, not those that come, decide size and work; equal groups need no margin.
TEST(ExpertParallel, TheRaggedBufferIsPlanned) {
  const auto rows = [](bool capacity, double factor) {
    const Program program = shard(built("deepseek-v3", capacity, 8, 4096), 128, {8, factor});
    EXPECT_EQ(tensor_of(program, "moe_layers.expert_rows").shape[0], 262144);
    EXPECT_EQ(tensor_of(program, "moe_layers.expert_down_proj.returned").shape[0], 262144);
    return tensor_of(program, "moe_layers.expert_gate_proj").shape[0];
  };
  EXPECT_EQ(rows(false, 1), 262144);
  EXPECT_EQ(rows(false, 1.5), 393216);
  EXPECT_EQ(rows(true, 1.5), 262144);
  const Program one = built("deepseek-v3", false, 8, 4096);
  const double counted = executed_flops(one).matmul;
  EXPECT_EQ(executed_flops(shard(one, 128, {8, 1})).matmul, counted);
  // Routed experts are 4,017.615 of the 8,206.742 TFLOP (published.md 4).
  EXPECT_NEAR((executed_flops(shard(one, 128, {8, 2})).matmul - counted) / 1e12, 4017.615, 0.001);
}

// What has rows that others send; neither their offsets nor what comes back.
TEST(ExpertParallel, WhatIsRaggedIsMarked) {
  for (const bool capacity : {false, true}) {
    const Program program = shard(built("deepseek-tiny", capacity, 2, 64), 4, {2, 1.5});
    for (const char* name : {"expert_rows.received", "expert_gate_proj", "expert_product",
                             "expert_down_proj", "expert_gate_proj.input_gradient"})
      EXPECT_EQ(tensor_of(program, text("moe_layers.", name)).ragged, !capacity) << name;
    for (const char* name : {"expert_rows", "expert_down_proj.returned", "shared_gate_proj"})
      EXPECT_FALSE(tensor_of(program, text("moe_layers.", name)).ragged) << name;
  }
  const Program dropless = shard(built("deepseek-tiny", false, 2, 64), 4, {2, 1.5});
  EXPECT_FALSE(tensor_of(dropless, "moe_layers.route_offsets.received").ragged);
  for (const Tensor& tensor : built("deepseek-tiny", false, 2, 64).tensors)
    EXPECT_FALSE(tensor.ragged) << tensor.name;
}

TEST(ExpertParallel, BadRanksAreRefused) {
  const Program program = built("deepseek-tiny", false, 1, 8);
  EXPECT_THROW(shard(program, 4, {3, 1}), InputError);
  EXPECT_THROW(shard(program, 4, {0, 1}), InputError);
  EXPECT_THROW(shard(program, 4, {2, 0}), InputError);
  EXPECT_THROW(shard(built("mixtral-8x7b", false, 1, 8), 48, {3, 1}), InputError);  // 8 experts
}

}  // namespace
}  // namespace spillway
