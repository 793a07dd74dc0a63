// Grouped matmul of 16,384 rows, K = 1,024, N = 512 over experts with uneven counts (Zipf 1.2)
// against oneDNN on the same work as one product. bf16 is held against the faster of the library's
// bf16 (where it has that) and fp32. The counter `ratio` is our rate over the library's; both run
// in turns.
#include <benchmark/benchmark.h>

#if SPILLWAY_HAVE_ONEDNN
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "harness/ops/matmul.h"
#include "tests/bench/library_product.h"
#include "tests/support/op_case.h"

namespace spillway {
namespace {

constexpr int64_t rows = 16384, k = 1024, n = 512;
constexpr double zipf = 1.2;

// First row of every group and the end, counts ~ 1 / rank^zipf, the largest group in the middle.
std::vector<int32_t> offsets_of(int64_t groups) {
  double sum = 0, share = 0;
  for (int64_t e = 0; e < groups; ++e)
    sum += std::pow(e + 1, -zipf);
  std::vector<int32_t> offsets = {0};
  for (int64_t e = 0; e < groups; ++e) {
    const int64_t rank = (e + groups / 2) % groups + 1;
    share += std::pow(rank, -zipf) / sum;
    offsets.push_back(static_cast<int32_t>(std::lround(share * rows)));
  }
  return offsets;
}

struct Grouped {
  OneOp one;
  std::vector<std::vector<std::byte>> memory;
  std::vector<Buffer> in, out;

  Grouped(int64_t groups, Form form, DType dtype) {
    const Item weights{{groups, n, k}, dtype}, narrow{{rows, k}, dtype}, wide{{rows, n}, dtype},
        offsets{{groups + 1}, DType::i32}, gradient{{groups, n, k}, DType::f32};
    OpCase c = op_case("grouped", OpKind::grouped_matmul, {wide, weights, offsets}, {narrow});
    c.attributes.transpose_a = form == Form::wgrad;
    c.attributes.transpose_b = form == Form::forward;
    if (form == Form::forward) {
      c.inputs[0] = narrow;
      c.outputs[0] = wide;
    } else if (form == Form::wgrad) {
      c.inputs[1] = narrow;
      c.outputs[0] = gradient;
    }
    one = program_of(c);
    for (const Item& item : c.inputs)
      in.push_back(buffer(item));
    out.push_back(buffer(c.outputs[0]));
    const std::vector<int32_t> values = offsets_of(groups);
    std::copy(values.begin(), values.end(), in[2].as<int32_t>());
  }

  Buffer buffer(const Item& item) {
    const auto bytes = static_cast<size_t>(elements_of(item.shape) * bytes_of(item.dtype));
    memory.emplace_back(bytes, std::byte{0x3f});
    return {memory.back().data(), item.shape, item.dtype};
  }

  void run(ThreadPool& pool) const {
    info(OpKind::grouped_matmul).run({&one.op, in, out, 0}, pool);
  }
};

Shape3 one_product(Form form) {
  if (form == Form::forward) return {rows, n, k};
  if (form == Form::dgrad) return {rows, k, n};
  return {n, k, rows};
}

// Arguments: experts, form, bytes of a value.
void grouped_matmul(benchmark::State& state) {
  const Form form = static_cast<Form>(state.range(1));
  const DType dtype = state.range(2) == 2 ? DType::bf16 : DType::f32;
  const Grouped ours(state.range(0), form, dtype);
  ThreadPool pool(usable_cpus());
  std::vector<Library::Type> types = {Library::Type::f32};
  if (dtype == DType::bf16 && onednn_usable(DType::bf16)) types.push_back(Library::Type::bf16);
  std::vector<Products> library(types.size());
  std::vector<double> library_seconds(types.size());
  for (size_t type = 0; type < types.size(); ++type) {
    library[type].push_back(std::make_unique<Library>(one_product(form), form, types[type]));
    seconds_of(library[type]);  // compiles its kernel at first use
  }
  ours.run(pool);
  double seconds = 0;
  for (auto _ : state) {
    const double begin = seconds_now();
    ours.run(pool);
    const double one = seconds_now() - begin;
    for (size_t type = 0; type < types.size(); ++type)
      library_seconds[type] += seconds_of(library[type]);
    seconds += one;
    state.SetIterationTime(one);
  }
  const double best = *std::min_element(library_seconds.begin(), library_seconds.end());
  const double flops = 2.0 * rows * n * k * static_cast<double>(state.iterations());
  state.counters["flop_per_s"] = benchmark::Counter(flops / seconds);
  state.counters["library_flop_per_s"] = benchmark::Counter(flops / best);
  state.counters["ratio"] = best / seconds;
  const Precision precision = dtype == DType::f32 ? Precision::fp32 : Precision::bf16;
  state.SetLabel(matmul_path(precision) + ", library " +
                 (best == library_seconds[0] ? "fp32" : "bf16"));
}

BENCHMARK(grouped_matmul)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->ArgNames({"experts", "form", "bytes"})
    ->ArgsProduct({{8, 32, 64}, {0, 1, 2}, {2, 4}});

}  // namespace
}  // namespace spillway
#endif
