// Counter-based random numbers: element i is a hash of (key, i). A few ns an element a thread.
#include "harness/cpu/init.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string_view>

#include "harness/ops/floats.h"

namespace spillway {
namespace {

constexpr int64_t block_elements = int64_t{1} << 16;
constexpr uint64_t golden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number
// generators"): every input bit reaches every output bit.
inline uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

inline uint64_t hash(uint64_t key, int64_t counter) {
  return mix(key + (static_cast<uint64_t>(counter) + 1) * golden);
}

// Four uniforms on 0..65535 out of one hash, less their mean 4 * 65535 / 2.
inline int64_t sum_of_uniforms(uint64_t key, int64_t element) {
  const uint64_t bits = hash(key, element);
  const uint64_t sum =
      (bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48);
  return static_cast<int64_t>(sum) - 131070;
}
constexpr double sum_variance = 4 * (65536.0 * 65536.0 - 1) / 12;

// FNV-1a, 64 bits.
uint64_t hash_of(std::string_view name) {
  uint64_t value = 0xcbf29ce484222325;
  for (const char letter : name)
    value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return value;
}

using BlockTask = std::function<void(int64_t begin, int64_t end)>;

void by_blocks(ThreadPool& pool, int64_t elements, const BlockTask& task) {
  const int64_t blocks = (elements + block_elements - 1) / block_elements;
  pool.run(blocks, [&](int64_t block, int) {
    const int64_t begin = block * block_elements;
    task(begin, std::min(elements, begin + block_elements));
  });
}

// Writes value(i) in the tensor's floating-point type.
template <class Value>
void fill(const Tensor& tensor, std::byte* data, ThreadPool& pool, const Value& value) {
  check(tensor.dtype != DType::i32, "tensor ", tensor.name,
        " holds integers and is to be filled with ", "fractions");
  const int64_t elements = tensor.slices * tensor.slice_elements();
  by_blocks(pool, elements, [&](int64_t begin, int64_t end) {
    if (tensor.dtype == DType::f32) {
      auto* out = reinterpret_cast<float*>(data);
      for (int64_t i = begin; i < end; ++i)
        out[i] = value(i);
    } else {
      auto* out = reinterpret_cast<Bf16*>(data);
      for (int64_t i = begin; i < end; ++i)
        out[i] = to_bf16(value(i));
    }
  });
}

// shift 0: the tokens; 1: the token after each of them.
void fill_tokens(const Program& program, const Tensor& tensor, std::byte* data, uint64_t seed,
                 int64_t shift) {
  const int64_t rows = program.batch * program.seq;
  check(tensor.dtype == DType::i32 && tensor.slices * tensor.slice_elements() == rows, "tensor ",
        tensor.name, " does not hold the ", rows, " tokens of a step");
  const auto vocabulary = static_cast<int64_t>(tensor.init_scale);
  check(vocabulary > 0, "tensor ", tensor.name, " has a vocabulary of ", vocabulary);
  auto* out = reinterpret_cast<int32_t*>(data);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t b = row / program.seq, s = row % program.seq;
    out[row] = stream_token(seed, b * (program.seq + 1) + s + shift, vocabulary);
  }
}

void fill_as_stated(const Arenas& arenas, TensorId id, uint64_t seed, ThreadPool& pool) {
  const Tensor& tensor = arenas.program->at(id);
  std::byte* data = arenas.address(id);
  const uint64_t key = init_key(seed, tensor.name);
  const double unit = tensor.init_scale / std::sqrt(sum_variance);
  switch (tensor.init) {
    case Init::none:
      return;
    case Init::zero:
      std::memset(data, 0, static_cast<size_t>(tensor.bytes()));
      return;
    case Init::one:
      return fill(tensor, data, pool, [](int64_t) { return 1.0F; });
    case Init::normal:
      return fill(tensor, data, pool, [key, unit](int64_t i) {
        return static_cast<float>(unit * static_cast<double>(sum_of_uniforms(key, i)));
      });
    case Init::tokens:
      return fill_tokens(*arenas.program, tensor, data, seed, 0);
    case Init::targets:
      return fill_tokens(*arenas.program, tensor, data, seed, 1);
  }
}

void fill_by_converting(const Arenas& arenas, TensorId id, ThreadPool& pool) {
  const Tensor& tensor = arenas.program->at(id);
  const Tensor& source = arenas.program->at(tensor.init_from);
  check(source.slices * source.slice_elements() == tensor.slices * tensor.slice_elements(),
        "tensor ", tensor.name, " is filled from ", source.name, ", which has another size");
  const std::byte* from = arenas.address(tensor.init_from);
  if (source.dtype == DType::f32) {
    const auto* in = reinterpret_cast<const float*>(from);
    fill(tensor, arenas.address(id), pool, [in](int64_t i) { return in[i]; });
  } else {
    check(source.dtype == DType::bf16, "tensor ", source.name, " holds integers");
    const auto* in = reinterpret_cast<const Bf16*>(from);
    fill(tensor, arenas.address(id), pool, [in](int64_t i) { return to_float(in[i]); });
  }
}

}  // namespace

uint64_t init_key(uint64_t seed, const std::string& name) {
  return mix(seed + golden) ^ hash_of(name);
}

int32_t stream_token(uint64_t seed, int64_t position, int64_t vocabulary) {
  // High half of a product instead of a remainder: uniform to one part in 2^32 / vocabulary.
  const uint64_t draw = hash(init_key(seed, "token stream"), position) >> 32;
  return static_cast<int32_t>((draw * static_cast<uint64_t>(vocabulary)) >> 32);
}

void init_persistent(const Arenas& arenas, uint64_t seed, ThreadPool& pool) {
  const auto tensors = static_cast<TensorId>(arenas.program->tensors.size());
  const auto filled = [&](TensorId id) {
    return arenas.program->at(id).extent == Extent::persistent && arenas.placed(id);
  };
  for (TensorId id = 0; id < tensors; ++id) {
    if (filled(id) && arenas.program->at(id).init_from == no_tensor) {
      fill_as_stated(arenas, id, seed, pool);
    }
  }
  for (TensorId id = 0; id < tensors; ++id) {
    if (filled(id) && arenas.program->at(id).init_from != no_tensor) {
      fill_by_converting(arenas, id, pool);
    }
  }
}

}  // namespace spillway
