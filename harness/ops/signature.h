// Signatures of ops, read by the compiler: what match() compares operands with.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace spillway {

// A part of a signature's text.
struct Word {
  uint8_t begin = 0, length = 0;
};

struct OperandPattern {
  static constexpr size_t most_dimensions = 4;

  Word name, dtype;
  std::array<uint8_t, most_dimensions> dimensions{};  // numbers of names
  uint8_t rank = 0;
  bool any_shape = false;  // [*]
  bool optional = false;
};

// "tokens[T]:i32 table[V,D]:x (more[V,D]:x) -> x[T,D]:x", as operands.h explains. A text that is
// none, or longer than the arrays, does not compile.
class SignaturePattern {
 public:
  static constexpr size_t most_operands = 12, most_names = 12;

  consteval SignaturePattern(const char* text) : text_(text) {  // NOLINT: literals stand for it
    for (const char* at = text; *at != '\0';) {
      if (*at == ' ') {
        ++at;
      } else if (at[0] == '-' && at[1] == '>') {
        inputs_ = count_;
        at += 2;
      } else {
        at = read_operand(at);
      }
    }
  }

  constexpr std::string_view word(Word word) const { return {text_ + word.begin, word.length}; }
  constexpr std::string_view name(size_t i) const { return word(names_[i]); }
  constexpr size_t names() const { return name_count_; }
  constexpr size_t first(bool outputs) const { return outputs ? inputs_ : 0; }
  constexpr size_t end(bool outputs) const { return outputs ? count_ : inputs_; }
  constexpr const OperandPattern& operand(size_t i) const { return operands_[i]; }

 private:
  consteval Word between(const char* begin, const char* end) const {
    return {static_cast<uint8_t>(begin - text_), static_cast<uint8_t>(end - begin)};
  }
  static consteval const char* find(const char* at, const char* stops) {
    for (; *at != '\0'; ++at)
      for (const char* stop = stops; *stop != '\0'; ++stop)
        if (*at == *stop) return at;
    return at;
  }

  consteval const char* read_operand(const char* at) {
    OperandPattern& operand = operands_.at(count_++);
    operand.optional = *at == '(';
    if (operand.optional) ++at;
    const char* const open = find(at, "[");
    operand.name = between(at, open);
    for (at = open; *at != ']';) {
      const char* const end = find(at + 1, ",]");
      operand.any_shape = operand.any_shape || at[1] == '*';
      if (!operand.any_shape) operand.dimensions.at(operand.rank++) = number_of(at + 1, end);
      at = end;
    }
    const char* const end = find(at + 2, " )");  // behind "]:"
    operand.dtype = between(at + 2, end);
    return *end == ')' ? end + 1 : end;
  }

  consteval uint8_t number_of(const char* begin, const char* end) {
    const Word word = between(begin, end);
    for (uint8_t i = 0; i < name_count_; ++i)
      if (name(i) == this->word(word)) return i;
    names_.at(name_count_) = word;
    return name_count_++;
  }

  const char* text_;
  std::array<OperandPattern, most_operands> operands_{};
  std::array<Word, most_names> names_{};
  uint8_t count_ = 0, inputs_ = 0, name_count_ = 0;
};

}  // namespace spillway
