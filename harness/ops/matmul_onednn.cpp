// Products by oneDNN (version 2 API). The library runs on OpenMP threads; every call here is made
// with one, from a worker of our own pool on its own tile, so no OpenMP team is ever started.
#include "harness/ops/matmul.h"

#if SPILLWAY_HAVE_ONEDNN
#include <cstdio>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "harness/error.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

extern "C" void omp_set_num_threads(int);  // of the OpenMP runtime that the library is linked with

namespace spillway {
namespace {

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::data_type type_of(DType dtype) {
  return dtype == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       DType, DType, bool>;

// A product of one shape, ready to run on any addresses. `c_row` is the row stride of c.
struct Prepared {
  dnnl::matmul primitive;
  dnnl::memory a, b, c, scratch;
  int64_t scratch_bytes = 0;
  std::unordered_map<int, dnnl::memory> arguments;

  Prepared(const Product& q, int64_t c_row, bool accumulate) {
    const dnnl::memory::desc a_desc({q.m, q.k}, type_of(q.in), {q.a_row, q.a_step});
    const dnnl::memory::desc b_desc({q.k, q.n}, type_of(q.in), {q.b_step, q.b_column});
    const dnnl::memory::desc c_desc({q.m, q.n}, type_of(q.out), {c_row, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (accumulate) {
      dnnl::post_ops onto;
      onto.append_sum(1.f);
      attributes.set_post_ops(onto);
    }
    const dnnl::matmul::primitive_desc chosen({a_desc, b_desc, c_desc}, attributes, cpu());
    primitive = dnnl::matmul(chosen);
    a = dnnl::memory(a_desc, cpu(), nullptr);
    b = dnnl::memory(b_desc, cpu(), nullptr);
    c = dnnl::memory(c_desc, cpu(), nullptr);
    scratch = dnnl::memory(chosen.scratchpad_desc(), cpu(), nullptr);
    scratch_bytes = static_cast<int64_t>(chosen.scratchpad_desc().get_size());
    arguments = {{DNNL_ARG_SRC, a},
                 {DNNL_ARG_WEIGHTS, b},
                 {DNNL_ARG_DST, c},
                 {DNNL_ARG_SCRATCHPAD, scratch}};
  }

  void run(const Product& q, const dnnl::stream& stream) {
    a.set_data_handle(const_cast<void*>(q.a));
    b.set_data_handle(const_cast<void*>(q.b));
    c.set_data_handle(q.c);
    const int64_t floats = scratch_bytes / static_cast<int64_t>(sizeof(float)) + 1;
    scratch.set_data_handle(row_scratch(3, floats));
    primitive.execute(stream, arguments);
  }
};

// One cache a thread, so that no lock is taken and no scratchpad shared; the library keeps the
// generated code once.
Prepared& prepared(const Product& q, int64_t c_row, bool accumulate) {
  static thread_local std::map<Key, Prepared> cache;
  const Key key{q.m,        q.n,   q.k,  q.a_row, q.a_step,  q.b_step,
                q.b_column, c_row, q.in, q.out,   accumulate};
  const auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  return cache.try_emplace(key, q, c_row, accumulate).first->second;
}

void run_single_threaded(const Product& q, int64_t c_row, bool accumulate = false) {
  omp_set_num_threads(1);
  static thread_local dnnl::stream stream(cpu());
  prepared(q, c_row, accumulate).run(q, stream);
  stream.wait();
}

// Small integers: every product and sum is exact, also rounded to bf16, so equality is asked for.
// Sizes are no multiples of anything; each operand in both orientations.
bool small_product_is_right(DType in, DType out, bool transpose_a, bool transpose_b) {
  constexpr int64_t m = 19, n = 37, k = 45;
  std::vector<float> a(m * k), b(k * n), right(m * n), got(m * n);
  for (int64_t i = 0; i < m * k; ++i)
    a[static_cast<size_t>(i)] = static_cast<float>(i * 7 % 5 - 2);
  for (int64_t i = 0; i < k * n; ++i)
    b[static_cast<size_t>(i)] = static_cast<float>(i * 11 % 3 - 1);
  std::vector<float> a_in(a.size()), b_in(b.size()), c_out(right.size());
  store(a_in.data(), in, 0, m * k, a.data());
  store(b_in.data(), in, 0, k * n, b.data());
  Product q{.m = m,
            .n = n,
            .k = k,
            .a = a_in.data(),
            .b = b_in.data(),
            .c = c_out.data(),
            .in = in,
            .out = out};
  q.a_row = transpose_a ? 1 : k;
  q.a_step = transpose_a ? m : 1;
  q.b_step = transpose_b ? 1 : n;
  q.b_column = transpose_b ? k : 1;
  run_single_threaded(q, n);
  load(c_out.data(), out, 0, m * n, got.data());
  ThreadPool one(1);
  product_plain(q, one);
  load(c_out.data(), out, 0, m * n, right.data());
  return got == right;
}

// Processors with AVX-512 but without its bf16 instructions get emulated kernels from the library,
// slower than fp32: not taken.
bool emulated(DType in) {
#if defined(__x86_64__)
  return in == DType::bf16 && !__builtin_cpu_supports("avx512bf16");
#else
  static_cast<void>(in);
  return false;
#endif
}

bool try_library(DType in) {
  if (emulated(in)) return false;
  try {
    for (const DType out : {DType::f32, DType::bf16}) {
      if (in == DType::f32 && out == DType::bf16) continue;  // not asked of the library
      for (const int transposes : {0, 1, 2, 3}) {
        if (small_product_is_right(in, out, (transposes & 1) != 0, (transposes & 2) != 0)) continue;
        std::fprintf(stderr,
                     "spillway: oneDNN computed a wrong %s product; using the portable path\n",
                     name_of(in));
        return false;
      }
    }
    return true;
  } catch (const dnnl::error&) {
    return false;  // no such kernel on this processor
  }
}

constexpr int64_t most_m = 1024, most_n = 512, multiple = 64;

}  // namespace

bool onednn_usable(DType in) {
  static const bool fp32 = try_library(DType::f32);
  if (in == DType::f32) return fp32;
  static const bool bf16 = try_library(DType::bf16);
  return bf16;
}

// The library's kernels compute offsets inside a tile in 32 bits.
bool onednn_fits(const Product& q, int64_t c_row) {
  const int64_t a = (q.m - 1) * q.a_row + (q.k - 1) * q.a_step,
                b = (q.k - 1) * q.b_step + (q.n - 1) * q.b_column;
  const int64_t c = (q.m - 1) * c_row + q.n - 1;
  const bool mixed = q.in == DType::f32 && q.out == DType::bf16;
  return !mixed && std::max({a, b, c}) * 4 < INT32_MAX;
}

void tile_onednn(const Product& tile, int64_t c_row, bool accumulate) {
  run_single_threaded(tile, c_row, accumulate);
}

void product_onednn(const Product& whole, ThreadPool& pool) {
  const Tiling tiles = tiling(whole.m, whole.n, most_m, most_n, multiple);
  if (!onednn_fits(tile_of(whole, tiles, 0), whole.n)) return product_portable(whole, pool);
  pool.run(tiles.count(),
           [&](int64_t index, int) { run_single_threaded(tile_of(whole, tiles, index), whole.n); });
}

}  // namespace spillway

#else

#include "harness/error.h"

namespace spillway {

bool onednn_usable(DType) { return false; }
bool onednn_fits(const Product&, int64_t) { return false; }
void product_onednn(const Product&, ThreadPool&) { check(false, "this build has no oneDNN"); }
void tile_onednn(const Product&, int64_t, bool) { check(false, "this build has no oneDNN"); }

}  // namespace spillway
#endif
