// Counter-based random numbers: element i is a hash of (key, i). A few ns an element a thread.
#include "harness/init.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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

// Where elements of a tensor go.
struct Target {
  const Tensor& tensor;
  ElementRange range;
  std::byte* out;
  ThreadPool& pool;
};

// out[i - first] = value(i) for every element i of the range.
template <class T, class Value>
void store(const Target& target, const Value& value) {
  auto* out = reinterpret_cast<T*>(target.out);
  const auto [first, count] = target.range;
  target.pool.run((count + block_elements - 1) / block_elements, [&](int64_t block, int) {
    const int64_t begin = block * block_elements, end = std::min(count, begin + block_elements);
    for (int64_t i = begin; i < end; ++i)
      out[i] = value(first + i);
  });
}

// Writes value(i), a float, in the tensor's floating-point type.
template <class Value>
void fill(const Target& target, const Value& value) {
  check(target.tensor.dtype != DType::i32, "tensor ", target.tensor.name,
        " holds integers and is to be filled with fractions");
  if (target.tensor.dtype == DType::f32) return store<float>(target, value);
  store<Bf16>(target, [&](int64_t i) { return to_bf16(value(i)); });
}

// shift 0: the tokens; 1: the token after each of them.
void fill_tokens(const Program& program, const Target& target, uint64_t seed, int64_t shift) {
  const Tensor& tensor = target.tensor;
  const int64_t seq = program.seq, rows = program.batch * seq;
  check(tensor.dtype == DType::i32 && tensor.slices * tensor.slice_elements() == rows, "tensor ",
        tensor.name, " does not hold the ", rows, " tokens of a step");
  const auto vocabulary = static_cast<int64_t>(tensor.init_scale);
  check(vocabulary > 0, "tensor ", tensor.name, " has a vocabulary of ", vocabulary);
  store<int32_t>(target, [=](int64_t row) {
    return stream_token(seed, row / seq * (seq + 1) + row % seq + shift, vocabulary);
  });
}

// Calls with(value): value(i) is element i as `tensor` states it, before its own dtype rounds it.
template <class With>
void with_stated_value(const Tensor& tensor, uint64_t seed, const With& with) {
  if (tensor.init == Init::zero) return with([](int64_t) { return 0.0F; });
  if (tensor.init == Init::one) return with([](int64_t) { return 1.0F; });
  check(tensor.init == Init::normal, "tensor ", tensor.name, " has no fractions to be filled with");
  const uint64_t key = init_key(seed, tensor.name);
  const double unit = tensor.init_scale / std::sqrt(sum_variance);
  with([key, unit](int64_t i) {
    return static_cast<float>(unit * static_cast<double>(sum_of_uniforms(key, i)));
  });
}

// The other tensor's values are made anew: it need not be at hand.
void fill_by_converting(const Target& target, const Tensor& source, uint64_t seed) {
  check(source.slices * source.slice_elements() ==
            target.tensor.slices * target.tensor.slice_elements(),
        "tensor ", target.tensor.name, " is filled from ", source.name, ", which has another size");
  check(source.dtype != DType::i32, "tensor ", source.name, " holds integers");
  with_stated_value(source, seed, [&](const auto& value) {
    if (source.dtype == DType::f32) return fill(target, value);
    fill(target, [&](int64_t i) { return to_float(to_bf16(value(i))); });
  });
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

bool has_init(const Tensor& tensor) {
  return tensor.init != Init::none || tensor.init_from != no_tensor;
}

void init_elements(const Program& program, TensorId id, uint64_t seed, ElementRange range,
                   std::byte* out, ThreadPool& pool) {
  const Tensor& tensor = program.at(id);
  const Target target{tensor, range, out, pool};
  if (tensor.init_from != no_tensor)
    return fill_by_converting(target, program.at(tensor.init_from), seed);
  switch (tensor.init) {
    case Init::none:
      return;
    case Init::zero:
      std::memset(out, 0, static_cast<size_t>(range.count * bytes_of(tensor.dtype)));
      return;
    case Init::tokens:
      return fill_tokens(program, target, seed, 0);
    case Init::targets:
      return fill_tokens(program, target, seed, 1);
    case Init::one:
    case Init::normal:
      return with_stated_value(tensor, seed, [&](const auto& value) { fill(target, value); });
  }
}

void init_persistent(const Arenas& arenas, uint64_t seed, ThreadPool& pool) {
  const Program& program = *arenas.program;
  for (TensorId id = 0; id < static_cast<TensorId>(program.tensors.size()); ++id) {
    const Tensor& tensor = program.at(id);
    if (tensor.extent != Extent::persistent || !arenas.placed(id) || !has_init(tensor)) continue;
    const ElementRange all{0, tensor.slices * tensor.slice_elements()};
    init_elements(program, id, seed, all, arenas.address(id), pool);
  }
}

}  // namespace spillway
