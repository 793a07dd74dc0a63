// Signatures of ops: a small reader of "name[dims]:dtype" lists.
#include "harness/ops/operands.h"

#include <array>
#include <memory>
#include <new>
#include <sstream>

#include "harness/error.h"

namespace spillway {
namespace {

struct Expected {
  std::string name, dtype;
  std::vector<std::string> dimensions;
  bool optional = false;
};

Expected parse_operand(std::string word) {
  Expected expected;
  if (word.front() == '(') {
    expected.optional = true;
    word = word.substr(1, word.size() - 2);
  }
  const size_t open = word.find('['), close = word.find(']');
  expected.name = word.substr(0, open);
  expected.dtype = word.substr(close + 2);
  std::istringstream dimensions(word.substr(open + 1, close - open - 1));
  for (std::string name; std::getline(dimensions, name, ',');)
    expected.dimensions.push_back(name);
  return expected;
}

std::string text_of(const Shape& shape) {
  std::ostringstream out;
  for (size_t i = 0; i < shape.size(); ++i)
    out << (i ? "," : "[") << shape[i];
  out << ']';
  return out.str();
}

// State of one match: what the letters have come to mean.
struct Matcher {
  const Program& program;
  Signature& result;
  std::map<std::string, DType> letters = {};
  bool any_shape_bound = false;
  Shape any_shape = {};

  void fail(const std::string& sentence) {
    if (result.error.empty()) result.error = sentence;
  }

  void dtype(const Expected& expected, const Tensor& tensor) {
    const bool floating = tensor.dtype != DType::i32;
    const std::string& want = expected.dtype;
    bool fits = want == "any" || (want == "float" && floating) || want == name_of(tensor.dtype);
    if (want.size() == 1)
      fits = floating && letters.try_emplace(want, tensor.dtype).first->second == tensor.dtype;
    if (!fits) {
      fail(text(expected.name, " (", tensor.name, ") is ", name_of(tensor.dtype), ", expected ",
                want.size() > 1          ? want
                : letters.contains(want) ? name_of(letters[want])
                                         : "f32 or bf16"));
    }
  }

  void shape(const Expected& expected, const Tensor& tensor, const Shape& found) {
    if (expected.dimensions.front() == "*") {
      if (!any_shape_bound) any_shape = found;
      any_shape_bound = true;
      if (found != any_shape) {
        fail(text(expected.name, " (", tensor.name, ") is ", text_of(found), ", expected ",
                  text_of(any_shape)));
      }
      return;
    }
    bool fits = found.size() == expected.dimensions.size();
    for (size_t i = 0; fits && i < found.size(); ++i) {
      fits =
          result.dimensions.try_emplace(expected.dimensions[i], found[i]).first->second == found[i];
    }
    if (!fits) {
      fail(text(expected.name, " (", tensor.name, ") is ", text_of(found), ", expected ",
                wanted(expected)));
    }
  }

  // "[T=6,D]": names with what is known of them.
  std::string wanted(const Expected& expected) const {
    std::ostringstream out;
    for (const std::string& name : expected.dimensions) {
      out << (&name == &expected.dimensions.front() ? "[" : ",") << name;
      const auto known = result.dimensions.find(name);
      if (known != result.dimensions.end()) out << '=' << known->second;
    }
    out << ']';
    return out.str();
  }

  void side(const char* which, const std::vector<Expected>& expected,
            const std::vector<Operand>& operands) {
    size_t least = 0;
    for (const Expected& e : expected)
      least += e.optional ? 0 : 1;
    if (operands.size() < least || operands.size() > expected.size()) {
      fail(text("has ", operands.size(), " ", which, ", expected ", least,
                least == expected.size() ? "" : text(" to ", expected.size())));
      return;
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      const Tensor& tensor = program.at(operands[i].tensor);
      dtype(expected[i], tensor);
      shape(expected[i], tensor, shape_of(program, operands[i]));
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

Signature match(const Program& program, const Op& op, const char* signature) {
  std::vector<Expected> sides[2];
  std::istringstream words(signature);
  int side = 0;
  for (std::string word; words >> word;) {
    if (word == "->") {
      side = 1;
    } else {
      sides[side].push_back(parse_operand(word));
    }
  }
  Signature result;
  Matcher matcher{program, result};
  matcher.side("inputs", sides[0], op.inputs);
  matcher.side("outputs", sides[1], op.outputs);
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
