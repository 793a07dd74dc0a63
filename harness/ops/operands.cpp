// Signatures of ops: a small reader of "name[dims]:dtype" lists.
#include "harness/ops/operands.h"

#include <array>
#include <memory>
#include <new>
#include <optional>
#include <sstream>

#include "harness/error.h"

namespace spillway {
namespace {

std::string text_of(const Shape& shape) {
  std::ostringstream out;
  for (size_t i = 0; i < shape.size(); ++i)
    out << (i ? "," : "[") << shape[i];
  out << ']';
  return out.str();
}

DType family_of(DType dtype) {
  if (dtype == DType::e5m2) return DType::e4m3;
  return dtype == DType::nvfp4_rows ? DType::nvfp4 : dtype;
}

// State of one match: what the letters have come to mean.
struct Matcher {
  const Program& program;
  Signature& result;
  std::array<std::optional<DType>, 26> letters = {};
  bool any_shape_bound = false;
  Shape any_shape = {};

  std::string_view name_of_operand(const OperandPattern& expected) const {
    return result.pattern.word(expected.name);
  }

  void fail(const std::string& sentence) {
    if (result.error.empty()) result.error = sentence;
  }

  void dtype(const OperandPattern& expected, const Tensor& tensor) {
    const bool narrow = is_narrow(tensor.dtype), floating = tensor.dtype != DType::i32 && !narrow;
    const std::string_view want = result.pattern.word(expected.dtype);
    bool fits = want == "any" || (want == "float" && floating) || (want == "narrow" && narrow) ||
                want == name_of(tensor.dtype);
    const char* meant = "f32 or bf16";
    if (want.size() == 1) {
      std::optional<DType>& letter = letters.at(static_cast<size_t>(want.front() - 'a'));
      const bool allowed = floating || (narrow && want == "q");
      if (allowed && !letter) letter = family_of(tensor.dtype);
      if (letter) meant = name_of(*letter);
      fits = allowed && letter == family_of(tensor.dtype);
    }
    if (fits) return;
    fail(text(name_of_operand(expected), " (", tensor.name, ") is ", name_of(tensor.dtype),
              ", expected ", want.size() > 1 ? want : meant));
  }

  void shape(const OperandPattern& expected, const Tensor& tensor, const Shape& found) {
    if (expected.any_shape) {
      if (!any_shape_bound) any_shape = found;
      any_shape_bound = true;
      if (!(found == any_shape)) {
        fail(text(name_of_operand(expected), " (", tensor.name, ") is ", text_of(found),
                  ", expected ", text_of(any_shape)));
      }
      return;
    }
    bool fits = found.size() == expected.rank;
    for (size_t i = 0; fits && i < found.size(); ++i) {
      int64_t& size = result.sizes[expected.dimensions[i]];
      if (size == 0) size = found[i];
      fits = size == found[i];
    }
    if (!fits) {
      fail(text(name_of_operand(expected), " (", tensor.name, ") is ", text_of(found),
                ", expected ", wanted(expected)));
    }
  }

  // "[T=6,D]": names with what is known of them.
  std::string wanted(const OperandPattern& expected) const {
    std::ostringstream out;
    for (size_t i = 0; i < expected.rank; ++i) {
      out << (i == 0 ? "[" : ",") << result.pattern.name(expected.dimensions[i]);
      const int64_t size = result.sizes[expected.dimensions[i]];
      if (size != 0) out << '=' << size;
    }
    out << ']';
    return out.str();
  }

  void side(bool outputs, const std::vector<Operand>& operands) {
    const size_t first = result.pattern.first(outputs), end = result.pattern.end(outputs);
    size_t least = 0;
    for (size_t i = first; i < end; ++i)
      least += result.pattern.operand(i).optional ? 0 : 1;
    const size_t most = end - first;
    if (operands.size() < least || operands.size() > most) {
      fail(text("has ", operands.size(), outputs ? " outputs" : " inputs", ", expected ", least,
                least == most ? "" : text(" to ", most)));
      return;
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      const Tensor& tensor = program.at(operands[i].tensor);
      const OperandPattern& expected = result.pattern.operand(first + i);
      dtype(expected, tensor);
      shape(expected, tensor, shape_of(program, operands[i]));
    }
  }
};

}  // namespace

Shape shape_of(const Program& program, const Operand& operand) {
  const Tensor& tensor = program.at(operand.tensor);
  Shape shape = tensor.shape;
  if (operand.index.whole && tensor.slices > 1) shape.insert(shape.begin(), tensor.slices);
  return shape;
}

int64_t bytes_of(const Program& program, const Operand& operand) {
  const Tensor& tensor = program.at(operand.tensor);
  return operand.index.whole ? tensor.bytes() : tensor.slice_bytes();
}

int64_t Signature::operator[](std::string_view name) const {
  for (size_t i = 0; i < pattern.names(); ++i)
    if (pattern.name(i) == name) return sizes[i];
  check(false, "no dimension ", name, " in this signature");
  return 0;
}

Signature match(const Program& program, const Op& op, const SignaturePattern& pattern) {
  Signature result{"", pattern, {}};
  Matcher matcher{program, result};
  matcher.side(false, op.inputs);
  matcher.side(true, op.outputs);
  return result;
}

std::string require_positive(std::initializer_list<NamedSize> attributes) {
  for (const auto& [name, value] : attributes) {
    if (value < 1) return text("attribute ", name, " is ", value, ", expected at least 1");
  }
  return "";
}

std::string require_distinct(const Op& op) {
  for (const Operand& output : op.outputs) {
    if (std::find(op.inputs.begin(), op.inputs.end(), output) != op.inputs.end()) {
      return "an output is also an input, but this op cannot work in place";
    }
  }
  return "";
}

double touched_bytes(const Program& program, const Op& op) {
  double bytes = 0;
  for (const auto* operands : {&op.inputs, &op.outputs}) {
    for (const Operand& operand : *operands) {
      const bool device = program.at(operand.tensor).space == Space::device;
      bytes += device ? static_cast<double>(bytes_of(program, operand)) : 0;
    }
  }
  return bytes;
}

float* row_scratch(int slot, int64_t floats) {
  constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(float* memory) const { ::operator delete[](memory, alignment); }
  };
  struct Row {
    std::unique_ptr<float[], Free> memory;
    int64_t floats = 0;
  };
  static thread_local std::array<Row, 12> rows;
  Row& row = rows.at(static_cast<size_t>(slot));
  if (row.floats < floats) {
    row.memory.reset();
    row.memory.reset(new (alignment) float[static_cast<size_t>(floats)]);
    row.floats = floats;
  }
  return row.memory.get();
}

}  // namespace spillway
