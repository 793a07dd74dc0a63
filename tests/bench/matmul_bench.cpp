// Matmul ops on the products of one step of the proxy (2,048 tokens) against oneDNN alone: the
// library with its own threads, weights in its best layout, one reorder a weight counted. Its bf16
// where it has that, and its fp32; the faster of the two is what our bf16 is held against. The counter `ratio` is our
// time over the library's; both run in turns.
#include <benchmark/benchmark.h>

#if SPILLWAY_HAVE_ONEDNN
#include <algorithm>
#include <memory>
#include <vector>

#include "harness/ops/matmul.h"
#include "tests/bench/library_product.h"
#include "tests/support/op_case.h"

namespace spillway {
namespace {

constexpr int64_t step_tokens = 2048;

// A weight of [out, in]: forward [T, out] over in; dgrad [T, in] over out; wgrad [out, in] over T.
Shape3 product_of(int64_t out, int64_t in, Form form) {
  if (form == Form::forward) return {step_tokens, out, in};
  if (form == Form::dgrad) return {step_tokens, in, out};
  return {out, in, step_tokens};
}

struct Ours {
  OneOp one;
  std::vector<std::vector<std::byte>> memory;
  std::vector<Buffer> in, out;

  Ours(int64_t out_width, int64_t in_width, Form form) {
    const Shape3 s = product_of(out_width, in_width, form);
    OpCase c = op_case("product", OpKind::matmul, {}, {});
    c.attributes.transpose_a = form == Form::wgrad;
    c.attributes.transpose_b = form == Form::forward;
    const Shape a = form == Form::wgrad ? Shape{s.k, s.m} : Shape{s.m, s.k};
    const Shape b = form == Form::forward ? Shape{s.n, s.k} : Shape{s.k, s.n};
    c.inputs = {{a, DType::bf16}, {b, DType::bf16}};
    c.outputs = {{{s.m, s.n}, form == Form::wgrad ? DType::f32 : DType::bf16}};
    one = program_of(c);
    in = {buffer(c.inputs[0]), buffer(c.inputs[1])};
    out = {buffer(c.outputs[0])};
  }

  Buffer buffer(const Item& item) {
    const auto bytes = static_cast<size_t>(elements_of(item.shape) * bytes_of(item.dtype));
    memory.emplace_back(bytes, std::byte{0x3f});
    return {memory.back().data(), item.shape, item.dtype};
  }

  void run(ThreadPool& pool) const { info(OpKind::matmul).run({&one.op, in, out, 0}, pool); }
};

// Arguments: out, in, form; out = 0 is the whole list.
void products(benchmark::State& state) {
  std::vector<std::pair<int64_t, int64_t>> weights = {{state.range(0), state.range(1)}};
  if (state.range(0) == 0)
    weights = {{1024, 1024}, {64, 1024},   {64, 1024},  {1024, 1024},
               {3328, 1024}, {3328, 1024}, {1024, 3328}};
  ThreadPool pool(usable_cpus());
  std::vector<std::unique_ptr<Ours>> ours;
  std::vector<Library::Type> types = {Library::Type::f32};
  if (onednn_usable(DType::bf16)) types.push_back(Library::Type::bf16);
  std::vector<Products> library(types.size());
  double flops = 0;
  for (const auto& [out, in] : weights) {
    for (const Form form : {Form::forward, Form::dgrad, Form::wgrad}) {
      if (state.range(0) != 0 && form != static_cast<Form>(state.range(2))) continue;
      ours.push_back(std::make_unique<Ours>(out, in, form));
      for (size_t type = 0; type < types.size(); ++type)
        library[type].push_back(
            std::make_unique<Library>(product_of(out, in, form), form, types[type]));
      flops += 2.0 * static_cast<double>(step_tokens) * static_cast<double>(out) *
               static_cast<double>(in);
    }
  }
  for (const Products& list : library)
    seconds_of(list);  // the library compiles its kernels at first use
  std::vector<double> library_seconds(types.size());
  double ours_seconds = 0;
  for (auto _ : state) {
    const double begin = seconds_now();
    for (const auto& product : ours)
      product->run(pool);
    const double middle = seconds_now();
    for (size_t type = 0; type < types.size(); ++type)
      library_seconds[type] += seconds_of(library[type]);
    ours_seconds += middle - begin;
    state.SetIterationTime(middle - begin);
  }
  const double best = *std::min_element(library_seconds.begin(), library_seconds.end());
  const double runs = static_cast<double>(state.iterations());
  state.counters["flop_per_s"] = benchmark::Counter(flops * runs / ours_seconds);
  state.counters["library_flop_per_s"] = benchmark::Counter(flops * runs / best);
  state.counters["ratio"] = ours_seconds / best;
  state.SetLabel(std::string(matmul_path(Precision::bf16)) + ", library " +
                 (best == library_seconds[0] ? "fp32" : "bf16"));
}

BENCHMARK(products)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->ArgNames({"out", "in", "form"})
    ->Args({0, 0, 0})
    ->ArgsProduct({{64, 1024, 3328, 8016}, {1024}, {0, 1, 2}})
    ->ArgsProduct({{1024}, {3328}, {0, 1, 2}});

}  // namespace
}  // namespace spillway
#endif
