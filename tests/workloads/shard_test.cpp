// Shards, gathers and reduce-scatters of the FSDP rewrite, against bytes counted by hand.
#include "workloads/shard.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "harness/error.h"
#include "harness/ops.h"
#include "tests/workloads/support.h"
#include "workloads/accounting.h"
#include "workloads/workload.h"

namespace spillway {
namespace {

// Bytes of the full buffers of one kind of collective in each segment, one iteration.
std::map<std::string, double> group_bytes(const Program& program, OpKind kind) {
  std::map<std::string, double> bytes;
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops)
      if (op.kind == kind) bytes[segment.name] += info(kind).cost(program, op).group_bytes;
  return bytes;
}

TEST(Shard, OneDeviceChangesNothing) {
  const Program program = build_program(load_model("llama-tiny"), point(1, 8));
  EXPECT_EQ(dump(shard(program, 1)), dump(program));
}

TEST(Shard, IsWellFormed) {
  ModelConfig tied = load_model("llama-tiny");
  tied.tie_word_embeddings = true;
  for (const ModelConfig& config : {load_model("llama-tiny"), tied, load_model("llama3.1-405b")})
    for (const int64_t devices : {2, 3, 128, 100000})  // more than some tensors have elements
      for (const Precision precision : {Precision::bf16, Precision::fp32, Precision::nvfp4}) {
        const Program program = shard(build_program(config, point(2, 33, precision)), devices);
        EXPECT_NO_THROW(verify(program, Stage::built)) << config.name << ' ' << devices;
        EXPECT_EQ(program.devices, devices);
      }
}

// 405,853,388,800 parameters over 128 devices: 3,170,729,600 each, 4 bytes for weight and gradient,
// 8 for m and v, no compute copy.
TEST(Shard, StateOf405BOn128Devices) {
  const Program program = shard(build_program(load_model("llama3.1-405b"), point(2, 8192)), 128);
  std::map<Role, int64_t> bytes;
  for (const Tensor& tensor : program.tensors)
    if (tensor.extent == Extent::persistent) bytes[tensor.role] += tensor.bytes();
  EXPECT_EQ(bytes[Role::parameter], 4 * 3170729600);
  EXPECT_EQ(bytes[Role::gradient], 4 * 3170729600);
  EXPECT_EQ(bytes[Role::optimizer], 8 * 3170729600);
}

// A layer of 405B: 2 D + 2 D H h + 2 D K h + 3 D F = 3,187,703,808 parameters, gathered in bf16
// once in the forward body and once in the backward body, reduced once. Head: V D + D. Embedding: V
// D.
TEST(Shard, CollectiveBytesOf405B) {
  const Program program = shard(build_program(load_model("llama3.1-405b"), point(2, 8192)), 128);
  const double layer = 2.0 * 3187703808, table = 2.0 * 128256 * 16384, norm = 2.0 * 16384;
  EXPECT_EQ(group_bytes(program, OpKind::all_gather),
            (std::map<std::string, double>{{"embed", table},
                                           {"layers.forward", layer},
                                           {"head", table + norm},
                                           {"layers.backward", layer}}));
  EXPECT_EQ(group_bytes(program, OpKind::reduce_scatter),
            (std::map<std::string, double>{
                {"head", table + norm}, {"layers.backward", layer}, {"embed.backward", table}}));
}

// Slice, gather, use, in this order and side by side; gradient, scatter, write likewise.
TEST(Shard, GathersStandBeforeTheFirstUseAndScattersAfterTheLastWrite) {
  const Program program = shard(build_program(load_model("llama-tiny"), point(1, 8)), 4);
  for (const Segment& segment : program.segments)
    for (size_t k = 0; k < segment.ops.size(); ++k) {
      const Op& op = segment.ops[k];
      if (op.kind == OpKind::all_gather) {
        EXPECT_EQ(segment.ops[k - 1].kind, OpKind::slice_cast);
        EXPECT_EQ(segment.ops[k - 1].outputs, op.inputs);
        const std::vector<Operand>& reads = segment.ops[k + 1].inputs;
        EXPECT_NE(std::find(reads.begin(), reads.end(), op.outputs[0]), reads.end()) << op.name;
      }
      if (op.kind == OpKind::reduce_scatter) {
        EXPECT_EQ(segment.ops[k + 1].kind, OpKind::write_slice);
        EXPECT_EQ(segment.ops[k + 1].inputs, op.outputs);
        EXPECT_EQ(program.at(segment.ops[k + 1].outputs[0].tensor).role, Role::gradient);
        EXPECT_EQ(program.at(op.inputs[0].tensor).dtype, DType::bf16);
        EXPECT_EQ(program.at(op.outputs[0].tensor).dtype, DType::f32);
      }
    }
}

TEST(Shard, BodiesReadNothingSharded) {
  const Program program = shard(build_program(load_model("llama-tiny"), point(1, 8)), 4);
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops) {
      if (op.kind == OpKind::adamw || op.kind == OpKind::slice_cast) continue;
      for (const Operand& input : op.inputs)
        EXPECT_NE(program.at(input.tensor).role, Role::parameter) << segment.name << ' ' << op.name;
    }
}

// Head and look-up both add to one whole gradient; it is reduced once, after the second.
TEST(Shard, TiedEmbeddingIsReducedOnce) {
  ModelConfig config = load_model("llama-tiny");
  config.tie_word_embeddings = true;
  const Program program = shard(build_program(config, point(1, 8)), 4);
  std::vector<std::string> scatters;
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops)
      if (op.name == "scatter.embed_tokens.weight") scatters.push_back(segment.name);
  EXPECT_EQ(scatters, std::vector<std::string>{"embed.backward"});
}

TEST(Shard, FlopsStayThoseOfOneDevice) {
  const Program program = build_program(load_model("llama-tiny"), point(2, 33));
  EXPECT_EQ(executed_flops(shard(program, 8)).matmul, executed_flops(program).matmul);
}

TEST(Shard, BadDevicesAreRefused) {
  const Program program = build_program(load_model("llama-tiny"), point(1, 8));
  EXPECT_THROW(shard(program, 0), InputError);
  EXPECT_THROW(shard(program, -2), InputError);
  EXPECT_THROW(shard(shard(program, 2), 2), std::logic_error);
}

}  // namespace
}  // namespace spillway
