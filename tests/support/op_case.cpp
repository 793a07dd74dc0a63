// Running one op's kernel on given values.
#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "harness/thread_pool.h"
#include "tests/support/op_narrow.h"

namespace spillway {
namespace {

std::vector<std::byte> encode(const Values& values, const Item& item) {
  const DType dtype = item.dtype;
  if (is_narrow(dtype)) return pack(values, item);
  std::vector<std::byte> bits(values.size() * static_cast<size_t>(bytes_of(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto single = static_cast<float>(values[i]);
    const auto integer = static_cast<int32_t>(std::isnan(values[i]) ? -1 : values[i]);
    uint32_t word;
    std::memcpy(&word, &single, sizeof word);
    const auto half = static_cast<uint16_t>(word >> 16);
    if (dtype == DType::f32) std::memcpy(&bits[i * 4], &single, 4);
    if (dtype == DType::bf16) std::memcpy(&bits[i * 2], &half, 2);
    if (dtype == DType::i32) std::memcpy(&bits[i * 4], &integer, 4);
  }
  return bits;
}

// Memory of one operand, `offset` elements after an address aligned to 64 bytes.
struct Block {
  std::vector<std::byte> memory;
  std::byte* data;

  // Quantised operands stay aligned.
  Block(const std::vector<std::byte>& bits, int64_t offset, DType dtype)
      : memory(bits.size() + 512) {
    const size_t misaligned = reinterpret_cast<uintptr_t>(memory.data()) % 64;
    data = memory.data() + (64 - misaligned) + (is_narrow(dtype) ? 0 : offset * bytes_of(dtype));
    std::memcpy(data, bits.data(), bits.size());
  }
};

}  // namespace

// Round to nearest even on a grid of `digits` binary digits; exponents of these tests are in range.
double rounded(double x, DType dtype) {
  if (x == 0 || std::isnan(x) || std::isinf(x) || dtype == DType::i32) return x;
  const int digits = dtype == DType::f32 ? 24 : 8;
  int exponent;
  std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(x, digits - exponent)), exponent - digits);
}

OpCase op_case(std::string name, OpKind kind, std::vector<Item> inputs, std::vector<Item> outputs,
               std::vector<Shared> in_place) {
  OpCase c;
  c.name = std::move(name);
  c.kind = kind;
  c.inputs = std::move(inputs);
  c.outputs = std::move(outputs);
  c.in_place = std::move(in_place);
  return c;
}

bool has_narrow(const OpCase& c) {
  const auto narrow = [](const Item& item) { return is_narrow(item.dtype); };
  return std::any_of(c.inputs.begin(), c.inputs.end(), narrow) ||
         std::any_of(c.outputs.begin(), c.outputs.end(), narrow);
}

OneOp program_of(const OpCase& c) {
  OneOp one;
  one.op.kind = c.kind;
  one.op.name = c.name;
  one.op.attributes = c.attributes;
  const auto add = [&](const Item& item, const char* side, size_t i) {
    Tensor tensor;
    tensor.name = side + std::to_string(i);
    tensor.shape = item.shape;
    tensor.dtype = item.dtype;
    return Operand{one.program.add(tensor), Index::all()};
  };
  for (size_t i = 0; i < c.inputs.size(); ++i)
    one.op.inputs.push_back(add(c.inputs[i], "in", i));
  for (size_t i = 0; i < c.outputs.size(); ++i)
    one.op.outputs.push_back(add(c.outputs[i], "out", i));
  if (c.kind == OpKind::copy_h2d && !c.inputs.empty())
    one.program.at(one.op.inputs[0].tensor).space = Space::host;
  if (c.kind == OpKind::copy_d2h) one.program.at(one.op.outputs[0].tensor).space = Space::host;
  for (const Shared& s : c.in_place)
    one.op.outputs[s.to] = one.op.inputs[s.from];
  return one;
}

std::vector<Values> random_inputs(const OpCase& c, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Values> inputs;
  for (const Item& item : c.inputs) {
    Values& values = inputs.emplace_back(item.given);
    if (is_narrow(item.dtype)) values = narrow_random(item, random);
    if (is_narrow(item.dtype)) continue;
    for (int64_t i = 0; item.fill != Item::Fill::given && i < elements_of(item.shape); ++i) {
      const double x = item.fill == Item::Fill::token
                           ? static_cast<double>(random() % static_cast<uint64_t>(item.vocabulary))
                           : normal(random);
      values.push_back(rounded(item.fill == Item::Fill::positive ? std::abs(x) : x, item.dtype));
    }
  }
  if (c.kind == OpKind::attention_backward) {
    OpCase forward = c;
    forward.kind = OpKind::attention;
    const auto made = reference(forward, {inputs[0], inputs[1], inputs[2]});
    for (size_t i = 0; i < 2; ++i) {
      for (size_t j = 0; j < made[i].size(); ++j)
        inputs[3 + i][j] = rounded(made[i][j], c.inputs[3 + i].dtype);
    }
  }
  return inputs;
}

std::vector<std::vector<std::byte>> run_by(const OpCase& c, const std::vector<Values>& inputs,
                                           int64_t offset,
                                           const std::function<void(const OpCall&)>& run) {
  std::vector<Block> in, out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.emplace_back(encode(inputs[i], c.inputs[i]), offset, c.inputs[i].dtype);
  }
  for (const Item& item : c.outputs) {
    const Values nan(static_cast<size_t>(elements_of(item.shape)),
                     std::numeric_limits<double>::quiet_NaN());
    out.emplace_back(is_narrow(item.dtype) ? std::vector(narrow_bytes(item), std::byte{0xff})
                                           : encode(nan, item),
                     offset, item.dtype);
  }
  std::vector<Buffer> from, to;
  for (size_t i = 0; i < in.size(); ++i)
    from.push_back({in[i].data, c.inputs[i].shape, c.inputs[i].dtype});
  for (size_t i = 0; i < out.size(); ++i)
    to.push_back({out[i].data, c.outputs[i].shape, c.outputs[i].dtype});
  for (const Shared& s : c.in_place)
    to[s.to].data = from[s.from].data;
  const OneOp one = program_of(c);
  run({&one.op, from, to, c.step});
  std::vector<std::vector<std::byte>> bits;
  for (size_t i = 0; i < to.size(); ++i) {
    const auto* data = to[i].as<std::byte>();
    const size_t bytes = is_narrow(to[i].dtype)
                             ? narrow_bytes(c.outputs[i])
                             : static_cast<size_t>(to[i].elements() * bytes_of(to[i].dtype));
    bits.emplace_back(data, data + bytes);
  }
  return bits;
}

std::vector<std::vector<std::byte>> run_kernel(const OpCase& c, const std::vector<Values>& inputs,
                                               int threads, int64_t offset) {
  ThreadPool pool(threads);
  return run_by(c, inputs, offset, [&](const OpCall& call) { info(c.kind).run(call, pool); });
}

Values decode(const std::vector<std::byte>& bits, const Item& item) {
  return is_narrow(item.dtype) ? unpack(bits, item) : decode(bits, item.dtype);
}

Values decode(const std::vector<std::byte>& bits, DType dtype) {
  Values values;
  for (size_t i = 0; i < bits.size(); i += static_cast<size_t>(bytes_of(dtype))) {
    uint32_t word = 0;
    std::memcpy(&word, &bits[i], static_cast<size_t>(bytes_of(dtype)));
    if (dtype == DType::bf16) word <<= 16;
    float single;
    std::memcpy(&single, &word, sizeof single);
    values.push_back(dtype == DType::i32 ? static_cast<int32_t>(word) : single);
  }
  return values;
}

}  // namespace spillway
