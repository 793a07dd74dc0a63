// Matmul ops on the products of one step of the proxy (2,048 tokens) against oneDNN alone: the
// library with its own threads, weights in its best layout, one reorder a weight counted. Its bf16
// where it has that, and its fp32; the faster of the two is what our bf16 is held against. The counter `ratio` is our
// time over the library's; both run in turns.
#include <benchmark/benchmark.h>

#if SPILLWAY_HAVE_ONEDNN
#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "harness/ops/matmul.h"
#include "tests/support/op_case.h"

extern "C" void omp_set_num_threads(int);

namespace spillway {
namespace {

enum class Form { forward, dgrad, wgrad };

struct Shape3 {
  int64_t m, n, k;
};

constexpr int64_t tokens = 2048;

// A weight of [out, in]: forward [T, out] over in; dgrad [T, in] over out; wgrad [out, in] over T.
Shape3 product_of(int64_t out, int64_t in, Form form) {
  if (form == Form::forward) return {tokens, out, in};
  if (form == Form::dgrad) return {tokens, in, out};
  return {out, in, tokens};
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

class Library {
 public:
  using Type = dnnl::memory::data_type;

  Library(int64_t out_width, int64_t in_width, Form form, Type type) {
    const Shape3 s = product_of(out_width, in_width, form);
    const auto ab = Tag::ab, ba = Tag::ba;
    a_ = memory({s.m, s.k}, type, form == Form::wgrad ? ba : ab);
    b_ = memory({s.k, s.n}, type, form == Form::forward ? ba : ab);
    c_ = memory({s.m, s.n}, form == Form::wgrad ? Type::f32 : type, ab);
    const dnnl::memory::desc best({s.k, s.n}, type, form == Form::wgrad ? ab : Tag::any);
    const dnnl::matmul::primitive_desc chosen({a_.get_desc(), best, c_.get_desc()}, engine_);
    matmul_ = dnnl::matmul(chosen);
    packed_ = dnnl::memory(chosen.weights_desc(), engine_);
    reorders_ = chosen.weights_desc() != b_.get_desc();
    if (reorders_) reorder_ = dnnl::reorder(b_, packed_);
  }

  void run() {
    if (reorders_) reorder_.execute(stream_, b_, packed_);
    matmul_.execute(
        stream_,
        {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, reorders_ ? packed_ : b_}, {DNNL_ARG_DST, c_}});
    stream_.wait();
  }

 private:
  using Tag = dnnl::memory::format_tag;

  dnnl::memory memory(dnnl::memory::dims dims, Type type, Tag tag) const {
    dnnl::memory made({dims, type, tag}, engine_);
    std::fill_n(static_cast<std::byte*>(made.get_data_handle()), made.get_desc().get_size(),
                std::byte{0x3f});
    return made;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::memory a_, b_, c_, packed_;
  dnnl::matmul matmul_;
  dnnl::reorder reorder_;
  bool reorders_ = false;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

using Products = std::vector<std::unique_ptr<Library>>;

double seconds_of(const Products& products) {
  omp_set_num_threads(usable_cpus());
  const double begin = seconds_now();
  for (const auto& product : products)
    product->run();
  return seconds_now() - begin;
}

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
        library[type].push_back(std::make_unique<Library>(out, in, form, types[type]));
      flops +=
          2.0 * static_cast<double>(tokens) * static_cast<double>(out) * static_cast<double>(in);
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
