// matmul: {a, b} -> {c[m,n]}, c = A B.
// a is [m,k], or [k,m] with transpose_a; b is [k,n], or [n,k] with transpose_b. a and b: both f32
// or both bf16; c: either. fp32 accumulation in every path. This file: legality, cost, tiles and
// the choice of a path.
#include "harness/ops/matmul.h"

#include <cstdlib>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"
#include "harness/ops/quantised.h"

namespace spillway {

const char* name_of(MatmulPath path) {
  constexpr const char* names[] = {"onednn", "portable", "plain"};
  return names[static_cast<int>(path)];
}

Tiling tiling(int64_t m, int64_t n, int64_t most_m, int64_t most_n, int64_t multiple,
              int64_t wanted) {
  constexpr int64_t least = 192;
  const auto parts = [](int64_t size, int64_t most) { return (size + most - 1) / most; };
  while (parts(m, most_m) * parts(n, most_n) < wanted && std::max(most_m, most_n) >= 2 * least) {
    (most_m >= most_n ? most_m : most_n) /= 2;
  }
  const auto even = [&](int64_t size, int64_t most) {
    const int64_t part = parts(size, parts(size, most));
    return parts(part, multiple) * multiple;
  };
  const int64_t tile_m = even(m, most_m), tile_n = even(n, most_n);
  return {tile_m, tile_n, parts(m, tile_m), parts(n, tile_n)};
}

Product tile_of(const Product& whole, const Tiling& tiles, int64_t index) {
  const int64_t i = index / tiles.columns * tiles.tile_m, j = index % tiles.columns * tiles.tile_n;
  Product tile = whole;
  tile.m = std::min(tiles.tile_m, whole.m - i);
  tile.n = std::min(tiles.tile_n, whole.n - j);
  tile.a = static_cast<const std::byte*>(whole.a) + i * whole.a_row * bytes_of(whole.in);
  tile.b = static_cast<const std::byte*>(whole.b) + j * whole.b_column * bytes_of(whole.in);
  tile.c = static_cast<std::byte*>(whole.c) + (i * whole.n + j) * bytes_of(whole.out);
  return tile;
}

void product_plain(const Product& q, ThreadPool& pool) {
  const auto at = [&](const void* data, int64_t index) {
    return q.in == DType::f32 ? static_cast<const float*>(data)[index]
                              : to_float(static_cast<const Bf16*>(data)[index]);
  };
  pool.run(q.m, [&](int64_t i, int) {
    for (int64_t j = 0; j < q.n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < q.k; ++p) {
        sum += at(q.a, i * q.a_row + p * q.a_step) * at(q.b, p * q.b_step + j * q.b_column);
      }
      store(q.c, q.out, i * q.n + j, 1, &sum);
    }
  });
}

namespace {

// Whether bf16 products have units of their own that outrun fp32's. Intel's AVX-512 without AMX
// multiplies bf16 no faster than fp32 (VDPBF16PS once a cycle, FMA twice: uops.info), so there the
// portable path, which skips the library's packing, wins. By processor and not by timing: a choice
// made by a clock would change bits from run to run.
bool bf16_outruns_fp32() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("amx-bf16") != 0 || __builtin_cpu_is("intel") == 0;
#else
  return true;
#endif
}

MatmulPath choose(DType in) {
  const char* forced = std::getenv("SPILLWAY_MATMUL");
  if (forced == nullptr) {
    const bool worth_it = in == DType::f32 || bf16_outruns_fp32();
    return worth_it && onednn_usable(in) ? MatmulPath::onednn : MatmulPath::portable;
  }
  for (const MatmulPath path : {MatmulPath::onednn, MatmulPath::portable, MatmulPath::plain}) {
    if (forced != std::string(name_of(path))) continue;
    if (path == MatmulPath::onednn && !onednn_usable(in)) {
      throw InputError(
          text("environment variable SPILLWAY_MATMUL: found 'onednn', but oneDNN has no ",
               name_of(in), " matmul on this machine; expected portable or plain"));
    }
    return path;
  }
  throw InputError(text("environment variable SPILLWAY_MATMUL: found '", forced,
                        "', expected onednn, portable or plain"));
}

}  // namespace

MatmulPath path_for(DType in) {
  static const MatmulPath fp32 = choose(DType::f32);
  if (in == DType::f32) return fp32;
  static const MatmulPath bf16 = choose(DType::bf16);
  return bf16;
}

MatmulPath path_for_groups(DType in) {
  static const bool asked = std::getenv("SPILLWAY_MATMUL") != nullptr;
  const MatmulPath path = path_for(in);
  const bool library = path == MatmulPath::onednn && in == DType::f32;
  return library && !asked ? MatmulPath::portable : path;
}

void product(const Product& q, ThreadPool& pool) {
  switch (path_for(q.in)) {
    case MatmulPath::onednn:
      return product_onednn(q, pool);
    case MatmulPath::portable:
      return product_portable(q, pool);
    case MatmulPath::plain:
      return product_plain(q, pool);
  }
}

namespace {

struct Sizes {
  int64_t m, n, k;
};

// Of operands that passed the check.
Sizes sizes_of(const Shape& a, const Shape& b, const Attributes& attributes) {
  return {attributes.transpose_a ? a[1] : a[0], attributes.transpose_b ? b[0] : b[1],
          attributes.transpose_a ? a[0] : a[1]};
}

std::string check_matmul(const Program& program, const Op& op) {
  static constexpr SignaturePattern signatures[2][2] = {
      {"a[M,K]:q b[K,N]:q -> c[M,N]:float", "a[M,K]:q b[N,K]:q -> c[M,N]:float"},
      {"a[K,M]:q b[K,N]:q -> c[M,N]:float", "a[K,M]:q b[N,K]:q -> c[M,N]:float"}};
  const Signature s =
      match(program, op, signatures[op.attributes.transpose_a][op.attributes.transpose_b]);
  return s.error.empty() ? check_operands(program, op) : s.error;
}

OpCost cost_matmul(const Program& program, const Op& op) {
  const Sizes s =
      sizes_of(shape_of(program, op.inputs[0]), shape_of(program, op.inputs[1]), op.attributes);
  return {.matmul_flops =
              2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k),
          .bytes = touched_bytes(program, op)};
}

void run_matmul(const OpCall& call, ThreadPool& pool) {
  const Attributes& attributes = call.op->attributes;
  const Buffer &a = call.inputs[0], &b = call.inputs[1], &c = call.outputs[0];
  const Sizes s = sizes_of(a.shape, b.shape, attributes);
  Product q{.m = s.m,
            .n = s.n,
            .k = s.k,
            .a = a.data,
            .b = b.data,
            .c = c.data,
            .in = a.dtype,
            .out = c.dtype};
  q.a_row = attributes.transpose_a ? 1 : s.k;
  q.a_step = attributes.transpose_a ? s.m : 1;
  q.b_step = attributes.transpose_b ? 1 : s.n;
  q.b_column = attributes.transpose_b ? s.k : 1;
  product(q, pool);
}

}  // namespace

std::string matmul_path(Precision precision) {
  const MatmulPath path = path_for(precision == Precision::fp32 ? DType::f32 : DType::bf16);
  if (path != MatmulPath::portable) return name_of(path);
  return text(name_of(path), "/", name_of(simd_level()));
}

const OpInfo matmul_info = {
    OpKind::matmul, "matmul",    Lane::compute,          "c = a b, either transposed",
    check_matmul,   cost_matmul, run_product<run_matmul>};

}  // namespace spillway
