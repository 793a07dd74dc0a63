// Every other op at the proxy's sizes (2,048 tokens, hidden 1,024, 16 heads of 64, 1 key head, ffn
// 3,328, vocabulary 8,016): FLOP/s for attention, bytes/s by the op's own cost (device bytes read +
// written) for the rest.
#include <map>
#include <vector>

#include <benchmark/benchmark.h>

#include "harness/error.h"
#include "harness/thread_pool.h"
#include "tests/support/op_case.h"

namespace spillway {
namespace {

constexpr int64_t tokens = 2048, hidden = 1024, ffn = 3328, vocabulary = 8016;

std::vector<OpCase> cases() {
  constexpr DType x = DType::bf16;
  const Item row{{tokens, hidden}, x}, kv{{tokens, 64}, x}, lse{{tokens, 16}, DType::f32},
      wide{{tokens, ffn}, x};
  const Item w{{hidden}, x}, dw{{hidden}, DType::f32},
      ids{{tokens}, DType::i32, Item::Fill::token, vocabulary};
  const Item table{{vocabulary, hidden}, x}, dtable{{vocabulary, hidden}, DType::f32},
      logits{{tokens, vocabulary}, x};
  const Item state{{8, 1024, 1024}, DType::f32}, copy{{8, 1024, 1024}, x};
  std::vector<OpCase> all = {
      op_case("attention", OpKind::attention, {row, kv, kv}, {row, lse}),
      op_case("attention_backward", OpKind::attention_backward, {row, kv, kv, row, lse, row},
              {row, kv, kv}),
      op_case("rms_norm", OpKind::rms_norm, {row, w}, {row}),
      op_case("rms_norm_backward", OpKind::rms_norm_backward, {row, w, row, row}, {row, dw},
              {{3, 0}}),
      op_case("rope", OpKind::rope, {row}, {row}),
      op_case("add", OpKind::add, {row, row}, {row}),
      op_case("swiglu", OpKind::swiglu, {wide, wide}, {wide}),
      op_case("swiglu_backward", OpKind::swiglu_backward, {wide, wide, wide}, {wide, wide}),
      op_case("embed", OpKind::embed, {ids, table}, {row}),
      op_case("embed_backward", OpKind::embed_backward, {ids, row}, {dtable}),
      op_case("cross_entropy", OpKind::cross_entropy, {logits, ids}, {{{1}, DType::f32}, logits},
              {{0, 1}}),
      op_case("adamw", OpKind::adamw, {state, state, state, state}, {state, state, state, copy},
              {{0, 0}, {1, 1}, {2, 2}}),
      op_case("slice_cast", OpKind::slice_cast, {state}, {copy}),
      op_case("copy_d2d", OpKind::copy_d2d, {state}, {state}),
  };
  for (OpCase& c : all) {
    Attributes& a = c.attributes;
    a.batch = 2;
    a.seq = 1024;
    a.heads = 16;
    a.kv_heads = 1;
    a.head_dim = 64;
    a.epsilon = 1e-5;
    a.learning_rate = 1e-3;
    a.beta1 = 0.9;
    a.beta2 = 0.95;
    a.adam_epsilon = 1e-8;
  }
  return all;
}

void one_op(benchmark::State& state, const OpCase& c) {
  std::vector<std::vector<uint64_t>> memory;
  const auto buffer = [&](const Item& item) {
    memory.emplace_back(static_cast<size_t>(elements_of(item.shape) * bytes_of(item.dtype) / 8 + 1),
                        0x3f003f003f003f00);
    if (item.dtype == DType::i32) std::fill(memory.back().begin(), memory.back().end(), 17);
    return Buffer{memory.back().data(), item.shape, item.dtype};
  };
  std::vector<Buffer> in, out;
  for (const Item& item : c.inputs)
    in.push_back(buffer(item));
  for (const Item& item : c.outputs)
    out.push_back(buffer(item));
  for (const Shared& s : c.in_place)
    out[s.to].data = in[s.from].data;
  const OneOp one = program_of(c);
  ThreadPool pool(usable_cpus());
  for (auto _ : state)
    info(c.kind).run({&one.op, in, out, 0}, pool);
  const OpCost cost = info(c.kind).cost(one.program, one.op);
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  if (cost.attention_flops > 0) {
    state.counters["flop_per_s"] =
        benchmark::Counter(cost.attention_flops + cost.attention_extra_flops, rate);
  } else {
    state.counters["bytes_per_s"] = benchmark::Counter(cost.bytes, rate);
  }
}

const bool registered = [] {
  for (const OpCase& c : cases()) {
    benchmark::RegisterBenchmark(("op/" + c.name).c_str(),
                                 [c](benchmark::State& state) { one_op(state, c); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace spillway
