// Reads typed members of a JSON object written by a user. null means absent. Every refusal names
// file and key, what was found and what was expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace spillway {

// Larger sizes than this (2^40) are typing errors; products of two such sizes are checked apart.
inline constexpr int64_t max_size = int64_t{1} << 40;

class JsonKeys {
 public:
  // `prefix` is the dotted name of the object, "" for the root. Throws InputError when `object` is
  // none.
  JsonKeys(const nlohmann::json& object, std::string file, std::string prefix = "");

  // Integers from 1 to max_size, written as integers.
  int64_t size(const char* key) const;
  std::optional<int64_t> optional_size(const char* key) const;
  // Integers from 0 to max_size, and a list of them.
  int64_t count(const char* key) const;
  std::optional<int64_t> optional_count(const char* key) const;
  std::optional<std::vector<int64_t>> optional_counts(const char* key) const;
  // Finite numbers above zero.
  double positive(const char* key) const;
  double positive(const char* key, double when_absent) const;
  // Finite numbers from zero.
  double non_negative(const char* key, double when_absent) const;
  bool flag(const char* key, bool when_absent) const;
  std::string word(const char* key) const;
  std::optional<std::string> optional_word(const char* key) const;
  std::optional<std::vector<std::string>> optional_words(const char* key) const;
  std::optional<JsonKeys> optional_object(const char* key) const;
  bool has(const char* key) const { return find(key) != nullptr; }
  // Where null and absence differ: whether the key is written at all.
  bool is_written(const char* key) const { return object_->contains(key); }
  bool is_list(const char* key) const { return has(key) && find(key)->is_array(); }
  std::vector<std::string> names() const;  // of all members

  // File and dotted name of a key, as messages begin.
  std::string path(const std::string& key) const;
  // Throws InputError naming file and key.
  [[noreturn]] void refuse(const char* key, const std::string& expected) const;

 private:
  const nlohmann::json* find(const char* key) const;  // null when absent or JSON null
  const nlohmann::json& require(const char* key, const char* expected) const;

  const nlohmann::json* object_;
  std::string file_, prefix_;
};

}  // namespace spillway
