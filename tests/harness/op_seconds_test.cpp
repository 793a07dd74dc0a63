// Seconds of one op against hand arithmetic on a machine of round figures, and against published
// rates on the shipped one.

#include <gtest/gtest.h>

#include "harness/error.h"
#include "harness/machine.h"
#include "harness/ops.h"
#include "tests/harness/sim_support.h"

namespace spillway {
namespace {

Operand device_tensor(Program& program, const Shape& shape, DType dtype) {
  Tensor tensor;
  tensor.name = "t" + std::to_string(program.tensors.size());
  tensor.shape = shape;
  tensor.dtype = dtype;
  return {program.add(tensor), Index::all()};
}

struct One {
  Program program;
  Op op;
};

One one(OpKind kind, const std::vector<Shape>& inputs, const std::vector<Shape>& outputs,
        DType dtype = DType::bf16, int64_t devices = 1) {
  One made;
  made.program.devices = devices;
  made.op.kind = kind;
  made.op.attributes.devices = devices;
  for (const Shape& shape : inputs)
    made.op.inputs.push_back(device_tensor(made.program, shape, dtype));
  for (const Shape& shape : outputs)
    made.op.outputs.push_back(device_tensor(made.program, shape, dtype));
  return made;
}

double seconds(const One& made, const Machine& machine, const SimOptions& options = {}) {
  return op_seconds(made.program, made.op, machine, options);
}

const Machine launching = round_machine({{"launch_seconds", 0.25}});

One product(Precision precision) {  // 2 x 4 x 5 x 6 = 240 FLOP, 54 operand elements
  One made = one(OpKind::matmul, {{4, 6}, {6, 5}}, {{4, 5}},
                 precision == Precision::fp32 ? DType::f32 : DType::bf16);
  made.op.attributes.precision = precision;
  return made;
}

TEST(OpSeconds, MatmulRunsAtEfficiencyTimesRatioTimesPeak) {
  EXPECT_DOUBLE_EQ(seconds(product(Precision::bf16), launching), 240.0 / 500 + 0.25);
  EXPECT_DOUBLE_EQ(seconds(product(Precision::fp32), launching), 240.0 / 250 + 0.25);
  SimOptions fitted;
  fitted.matmul_efficiency = 0.25;
  EXPECT_DOUBLE_EQ(seconds(product(Precision::bf16), launching, fitted), 240.0 / 250 + 0.25);
}

// 48 bytes of bf16 operands that the product is the first to read, 1.5 bytes of traffic each in FP8
// and 2 in NVFP4, and a launch. The op that makes the copy has no time of its own.
TEST(OpSeconds, NarrowProductsPayForTheOperandsTheyAreFirstToRead) {
  One fp8 = product(Precision::fp8), nvfp4 = product(Precision::nvfp4);
  EXPECT_DOUBLE_EQ(seconds(fp8, launching), 240.0 / 800 + 0.25);
  fp8.op.attributes.quantised_bytes = nvfp4.op.attributes.quantised_bytes = 48;
  EXPECT_DOUBLE_EQ(seconds(fp8, launching), 240.0 / 800 + 0.25 + 72.0 / 1200 + 0.25);
  EXPECT_DOUBLE_EQ(seconds(nvfp4, launching), 240.0 / 1000 + 0.25 + 96.0 / 1200 + 0.25);
  One pass = one(OpKind::quantise, {{4, 6}}, {{4, 6}});
  pass.program.at(pass.op.outputs[0].tensor).dtype = DType::e4m3;
  EXPECT_EQ(seconds(pass, launching), 0);
}

One attention_of(OpKind kind) {  // 2 sequences of 4, 2 heads of 4 over 1 kv head
  const Shape q = {8, 8}, kv = {8, 4}, lse = {8, 2};
  One made = kind == OpKind::attention ? one(kind, {q, kv, kv}, {q, lse})
                                       : one(kind, {q, kv, kv, q, lse, q}, {q, kv, kv});
  for (Operand& operand : made.op.inputs)
    if (made.program.at(operand.tensor).shape == lse)
      made.program.at(operand.tensor).dtype = DType::f32;
  Attributes& a = made.op.attributes;
  a.batch = 2, a.seq = 4, a.heads = 2, a.kv_heads = 1, a.head_dim = 4;
  return made;
}

// Causal: two products of b s^2 H d = 256 FLOP each at half of the matmul rate; backward five at a
// quarter of it.
TEST(OpSeconds, AttentionBackwardIsFiveProducts) {
  EXPECT_DOUBLE_EQ(seconds(attention_of(OpKind::attention), launching), 512.0 / 250 + 0.25);
  EXPECT_DOUBLE_EQ(seconds(attention_of(OpKind::attention_backward), launching),
                   1280.0 / 125 + 0.25);
}

TEST(OpSeconds, EverythingElseStreamsThroughMemory) {
  const One add = one(OpKind::add, {{100}, {100}}, {{100}}, DType::f32);
  EXPECT_DOUBLE_EQ(seconds(add, launching), 1200.0 / 1200 + 0.25);
  const One copy = one(OpKind::copy_d2d, {{250}}, {{250}}, DType::f32);
  EXPECT_DOUBLE_EQ(seconds(copy, launching), 2000.0 / 600 + 0.25);
}

TEST(OpSeconds, HostCopiesUseTheLinkOfOneDeviceOrOfAll) {
  const Machine machine = round_machine(
      {{"link_h2d", 40}, {"link_d2h", 50}, {"link_h2d_all", 20}, {"link_d2h_all", 25}});
  const auto copy = [](OpKind kind, int64_t devices) {
    return one(kind, {{250}}, {{250}}, DType::f32, devices);
  };
  EXPECT_DOUBLE_EQ(seconds(copy(OpKind::copy_h2d, 1), machine), 25);
  EXPECT_DOUBLE_EQ(seconds(copy(OpKind::copy_d2h, 1), machine), 20);
  EXPECT_DOUBLE_EQ(seconds(copy(OpKind::copy_h2d, 2), machine), 50);
  EXPECT_DOUBLE_EQ(seconds(copy(OpKind::copy_d2h, 2), machine), 40);
  SimOptions given;
  given.link_bytes_per_second = 10;
  EXPECT_DOUBLE_EQ(seconds(copy(OpKind::copy_h2d, 2), machine, given), 100);
  given.free_transfers = true;
  EXPECT_DOUBLE_EQ(seconds(copy(OpKind::copy_d2h, 2), machine, given), 0);
}

// 1600 bytes gathered. 4 devices, one domain: 3/4 of them at 40 bytes/s. 8 devices: 7/8 of them
// through the fabric, or over the 4 cards of a domain at 5 bytes/s each: the cards decide.
TEST(OpSeconds, CollectivesTakeTheSlowerOfFabricAndNetwork) {
  const Machine machine = round_machine({{"collective_latency", 0.125}});
  const One inside = one(OpKind::all_gather, {{100}}, {{400}}, DType::f32, 4);
  EXPECT_DOUBLE_EQ(seconds(inside, machine), 1200.0 / 40 + 0.125);
  const One across = one(OpKind::reduce_scatter, {{400}}, {{50}}, DType::f32, 8);
  EXPECT_DOUBLE_EQ(seconds(across, machine), 1400.0 / 4 / 5 + 0.125);
  const Machine fast = round_machine({{"collective_latency", 0.125}, {"nic_bandwidth", 100}});
  EXPECT_DOUBLE_EQ(seconds(across, fast), 1400.0 / 40 + 0.125);
}

// 1600 bytes to send. 4 devices, one domain: 3/4 of them at 40 bytes/s. 8 devices: half are for the
// other domain, over the own card at 5 bytes/s; 7/8 go at 40 bytes/s where the card is fast.
TEST(OpSeconds, AnExchangeSendsOverTheNetworkWhatLeavesTheDomain) {
  const Machine machine = round_machine({{"collective_latency", 0.125}});
  const One inside = one(OpKind::all_to_all, {{40, 10}}, {{60, 10}}, DType::f32, 4);
  EXPECT_DOUBLE_EQ(seconds(inside, machine), 1200.0 / 40 + 0.125);
  const One across = one(OpKind::all_to_all, {{40, 10}}, {{60, 10}}, DType::f32, 8);
  EXPECT_DOUBLE_EQ(seconds(across, machine), 800.0 / 5 + 0.125);
  const Machine fast = round_machine({{"collective_latency", 0.125}, {"nic_bandwidth", 100}});
  EXPECT_DOUBLE_EQ(seconds(across, fast), 1400.0 / 40 + 0.125);
}

// 3 groups share 6 rows: 2 x 6 x 5 x 4 FLOP whatever the split.
TEST(OpSeconds, GroupedProductsRunAsOneProduct) {
  One made = one(OpKind::grouped_matmul, {{6, 4}, {3, 5, 4}}, {{6, 5}});
  made.op.attributes.transpose_b = true;
  made.op.inputs.push_back(device_tensor(made.program, {4}, DType::i32));
  made.op.attributes.precision = Precision::bf16;
  EXPECT_DOUBLE_EQ(seconds(made, launching), 240.0 / 500 + 0.25);
  made.op.attributes.precision = Precision::fp8;
  EXPECT_DOUBLE_EQ(seconds(made, launching), 240.0 / 800 + 0.25);
}

// One sequence of 3, 4 slots, width 5: 2 x 3 x 4 x 5 FLOP each.
TEST(OpSeconds, EinsumsOfMasksAreDenseProducts) {
  for (const OpKind kind :
       {OpKind::dispatch_einsum, OpKind::combine_einsum, OpKind::mask_gradient}) {
    const Shape mask = {3, 4}, token = {3, 5}, slots = {4, 5};
    One made = kind == OpKind::dispatch_einsum  ? one(kind, {mask, token}, {slots})
               : kind == OpKind::combine_einsum ? one(kind, {mask, slots}, {token})
                                                : one(kind, {token, slots}, {mask});
    made.op.attributes.batch = 1;
    made.op.attributes.seq = 3;
    made.op.attributes.capacity = 2;
    EXPECT_DOUBLE_EQ(seconds(made, launching), 120.0 / 500 + 0.25) << info(kind).name;
  }
}

// The rate the machine's efficiency was taken from comes out of the model: FP8 16384^3 at 2,695
// TFLOP/s.
TEST(OpSeconds, Gb200ReproducesTheMeasuredFp8Rate) {
  Machine machine = shipped_machine("gb200-nvl72.json");
  machine.figures["launch_seconds"].value = 0;
  One made = one(OpKind::matmul, {{16384, 16384}, {16384, 16384}}, {{16384, 16384}});
  made.op.attributes.precision = Precision::fp8;
  const double flops = 2 * 16384.0 * 16384.0 * 16384.0;
  EXPECT_NEAR(flops / seconds(made, machine) / 1e12, 2695, 1e-6);
}

// 576 MiB of Q, K and V of a Llama 3.1 405B layer at micro batch 2 and sequence 8192: 3.1 ms one
// GPU alone, 3.3 ms all at once to the host, 3.5 ms back (bytes over nvbandwidth's rates).
TEST(OpSeconds, Gb200MovesOneLayersQkvInMilliseconds) {
  const Machine machine = shipped_machine("gb200-nvl72.json");
  const auto copy = [&](OpKind kind, int64_t devices) {
    return seconds(one(kind, {{16384, 18432}}, {{16384, 18432}}, DType::bf16, devices), machine);
  };
  EXPECT_NEAR(copy(OpKind::copy_d2h, 1), 603979776 / 193e9, 1e-12);
  EXPECT_NEAR(copy(OpKind::copy_d2h, 128), 0.0033004, 1e-7);
  EXPECT_NEAR(copy(OpKind::copy_h2d, 128), 0.0035115, 1e-7);
}

// The matrices of one Llama 3.1 405B layer in bf16 over 128 GPUs in two racks of 64: 127/128 of
// 6.3753 GB through NVLink at 648 GB/s; the network would need 2.2 ms.
TEST(OpSeconds, Gb200GathersALayerThroughNvlink) {
  const Machine machine = shipped_machine("gb200-nvl72.json");
  const int64_t parameters = int64_t{16384} * (2 * 16384 + 2 * 1024 + 3 * 53248);
  const One gather =
      one(OpKind::all_gather, {{parameters / 128}}, {{parameters}}, DType::bf16, 128);
  EXPECT_NEAR(seconds(gather, machine), 9.7616e-3 + 25e-6, 1e-7);
}

// A CPU run needs latencies for every kind of op on one device, and has no figure for more. Sizes
// of a thousand rows: milliseconds, and attention costs more backward than forward.
TEST(OpSeconds, TheCpuPricesWhatOneDeviceRuns) {
  const Machine machine = shipped_machine("cpu-2core.json");
  for (Precision precision : {Precision::fp32, Precision::bf16}) {
    One made = one(OpKind::matmul, {{1024, 1024}, {1024, 1024}}, {{1024, 1024}});
    made.op.attributes.precision = precision;
    EXPECT_NEAR(seconds(made, machine), 2 * 1024.0 * 1024 * 1024 / 0.24e12 / 0.8 + 10e-6, 1e-9);
  }
  EXPECT_LT(seconds(attention_of(OpKind::attention), machine),
            seconds(attention_of(OpKind::attention_backward), machine));
  const Shape rows = {1024, 1024};
  EXPECT_NEAR(seconds(one(OpKind::add, {rows, rows}, {rows}), machine), 3 * 2097152 / 20e9 + 10e-6,
              1e-9);
  for (OpKind kind : {OpKind::copy_d2h, OpKind::copy_h2d})
    EXPECT_NEAR(seconds(one(kind, {rows}, {rows}), machine), 2097152 / 7e9, 1e-9);
  EXPECT_THROW(seconds(one(OpKind::all_gather, {{8}}, {{16}}, DType::bf16, 2), machine),
               InputError);
}

}  // namespace
}  // namespace spillway
