#include "tests/support/plain_run.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "harness/error.h"

namespace spillway {
namespace {

float as_float(const std::byte* at, DType dtype) {
  uint32_t bits = 0;
  if (dtype == DType::f32) {
    std::memcpy(&bits, at, 4);
  } else {
    uint16_t high = 0;
    std::memcpy(&high, at, 2);
    bits = uint32_t{high} << 16;
  }
  return std::bit_cast<float>(bits);
}

void store_float(std::byte* at, DType dtype, float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (dtype == DType::f32) {
    std::memcpy(at, &bits, 4);
    return;
  }
  bits += 0x7fff + ((bits >> 16) & 1);  // to nearest, ties to even
  const auto high = static_cast<uint16_t>(bits >> 16);
  std::memcpy(at, &high, 2);
}

}  // namespace

PlainRun::PlainRun(const Program& program, int threads)
    : program_(program), pool_(threads), home_(program.tensors.size(), 0) {
  int64_t layers = 0;  // of all stacks, which one ring may pass through
  for (size_t s = 0; s < program.segments.size(); ++s) {
    if (program.segments[s].pass == Pass::forward) layers += program.segments[s].trips;
    for (const Op& op : program.segments[s].ops)
      for (const Operand& output : op.outputs)
        home_[static_cast<size_t>(output.tensor)] = static_cast<int>(s);
  }
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    const Tensor& tensor = program.tensors[id];
    int64_t slices = tensor.ring ? layers + 1 : tensor.slices;
    if (tensor.extent == Extent::local)
      slices = program.segments[static_cast<size_t>(home_[id])].trips;
    data_.emplace_back(static_cast<size_t>(slices * tensor.slice_bytes()), std::byte{0xff});
    if (tensor.extent == Extent::persistent)
      std::fill(data_[id].begin(), data_[id].end(), std::byte{0});
  }
}

void PlainRun::step() {
  for (const Segment& segment : program_.segments) {
    for (int64_t i = 0; i < segment.trips; ++i) {
      for (const Op& op : segment.ops) {
        std::vector<Buffer> inputs, outputs;
        for (const Operand& input : op.inputs)
          inputs.push_back(buffer(segment, input, i));
        for (const Operand& output : op.outputs)
          outputs.push_back(buffer(segment, output, i));
        info(op.kind).run({&op, inputs, outputs, steps_}, pool_);
      }
    }
  }
  ++steps_;
}

int64_t PlainRun::slice_of(const Segment& segment, const Operand& operand,
                           int64_t iteration) const {
  if (program_.at(operand.tensor).extent != Extent::local)
    return operand.index.whole ? 0 : operand.index.stride * iteration + operand.index.offset;
  const bool of_forward = segment.forward_segment >= 0 &&
                          home_[static_cast<size_t>(operand.tensor)] == segment.forward_segment;
  return of_forward ? segment.trips - 1 - iteration : iteration;
}

Buffer PlainRun::buffer(const Segment& segment, const Operand& operand, int64_t iteration) {
  const Tensor& tensor = program_.at(operand.tensor);
  std::byte* first = data_[static_cast<size_t>(operand.tensor)].data();
  Buffer buffer{first + slice_of(segment, operand, iteration) * tensor.slice_bytes(), tensor.shape,
                tensor.dtype};
  if (operand.index.whole && tensor.slices > 1)
    buffer.shape.insert(buffer.shape.begin(), tensor.slices);
  return buffer;
}

TensorId PlainRun::find(const std::string& name) const {
  for (size_t id = 0; id < program_.tensors.size(); ++id)
    if (program_.tensors[id].name == name) return static_cast<TensorId>(id);
  return no_tensor;
}

std::vector<float> PlainRun::read(const std::string& name) const {
  const TensorId id = find(name);
  check(id != no_tensor, "no tensor ", name);
  const DType dtype = program_.at(id).dtype;
  const std::vector<std::byte>& bytes = data_[static_cast<size_t>(id)];
  std::vector<float> values(bytes.size() / static_cast<size_t>(bytes_of(dtype)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = as_float(bytes.data() + i * static_cast<size_t>(bytes_of(dtype)), dtype);
  return values;
}

std::vector<int32_t> PlainRun::read_integers(const std::string& name) const {
  const TensorId id = find(name);
  check(id != no_tensor && program_.at(id).dtype == DType::i32, "no integers ", name);
  const std::vector<std::byte>& bytes = data_[static_cast<size_t>(id)];
  std::vector<int32_t> values(bytes.size() / sizeof(int32_t));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

void PlainRun::write(const std::string& name, const std::vector<float>& values) {
  const TensorId id = find(name);
  check(id != no_tensor, "no tensor ", name);
  const DType dtype = program_.at(id).dtype;
  std::vector<std::byte>& bytes = data_[static_cast<size_t>(id)];
  check(bytes.size() == values.size() * static_cast<size_t>(bytes_of(dtype)), name,
        " has another size");
  for (size_t i = 0; i < values.size(); ++i)
    store_float(bytes.data() + i * static_cast<size_t>(bytes_of(dtype)), dtype, values[i]);
}

void PlainRun::set_tokens(const std::string& name, const std::vector<int32_t>& tokens) {
  const TensorId id = find(name);
  check(id != no_tensor && program_.at(id).slice_elements() == static_cast<int64_t>(tokens.size()),
        "no tensor ", name, " of ", tokens.size(), " tokens");
  std::memcpy(data_[static_cast<size_t>(id)].data(), tokens.data(),
              tokens.size() * sizeof(int32_t));
}

float PlainRun::loss() const {
  return as_float(data_[static_cast<size_t>(program_.loss)].data(), DType::f32);
}

}  // namespace spillway
