// One source, several instruction sets: simd(body) runs `body` compiled for the best set this
// processor has. The body is a lambda `[&](auto isa) SPILLWAY_SIMD { ... }`; plain loops in it are
// vectorised by the compiler. No intrinsics.
#pragma once

#include <cstdint>

namespace spillway {

#define SPILLWAY_SIMD __attribute__((always_inline))
#define SPILLWAY_INLINE inline __attribute__((always_inline))

// `lanes` floats in a vector register. A register tile of a product is `rows` x `columns`: rows * 2
// accumulators, two vectors of B and one broadcast of A fit the register file (16 registers; 32
// with AVX-512).
template <int Lanes, int Rows>
struct Isa {
  static constexpr int lanes = Lanes, rows = Rows, columns = 2 * Lanes;
};
using Baseline = Isa<4, 6>;  // SSE2, NEON
using Avx2 = Isa<8, 6>;
using Avx512 = Isa<16, 12>;
// Tile sizes that are multiples of this suit every instruction set.
inline constexpr int64_t common_tile = 96;

template <int Lanes>
struct VectorOf {
  typedef float type __attribute__((vector_size(Lanes * 4), aligned(4), may_alias));
};
template <class I>
using Vector = typename VectorOf<I::lanes>::type;

enum class SimdLevel : uint8_t { baseline, avx2, avx512 };

// The best level here, or the one SPILLWAY_SIMD=baseline|avx2|avx512 asks for. Throws InputError
// where the variable names none, or one this processor lacks. Bits of results may differ between
// levels, never between runs of one level.
SimdLevel simd_level();
const char* name_of(SimdLevel level);

#if defined(__x86_64__)
template <class Body>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512"))) void
run_avx512(const Body& body) {
  body(Avx512{});
}
template <class Body>
__attribute__((target("avx2,fma"))) void run_avx2(const Body& body) {
  body(Avx2{});
}
#endif

template <class Body>
void simd(const Body& body) {
#if defined(__x86_64__)
  static const SimdLevel level = simd_level();
  if (level == SimdLevel::avx512) return run_avx512(body);
  if (level == SimdLevel::avx2) return run_avx2(body);
#endif
  body(Baseline{});
}

}  // namespace spillway
