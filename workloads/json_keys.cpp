#include "workloads/json_keys.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/error.h"
#include "workloads/json.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr const char* size_wanted = "an integer from 1 to 2^40, without quotes, point or exponent";
constexpr const char* count_wanted = "an integer from 0 to 2^40, without quotes, point or exponent";
constexpr const char* positive_wanted = "a finite number above 0";
constexpr const char* word_wanted = "a string";

bool is_count(const json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= static_cast<uint64_t>(max_size);
  // Signed integers come from the parser only when negative, from code also when positive.
  return value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() <= max_size;
}

bool is_size(const json& value) { return is_count(value) && value.get<int64_t>() >= 1; }

bool is_positive(const json& value) {
  return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0;
}

}  // namespace

JsonKeys::JsonKeys(const json& object, std::string file, std::string prefix)
    : object_(&object), file_(std::move(file)), prefix_(std::move(prefix)) {
  if (object.is_object()) return;
  const std::string where = prefix_.empty() ? "the document" : prefix_;
  throw InputError(text(file_, ": ", where, ": found ", shown(object), ", expected an object"));
}

const json* JsonKeys::find(const char* key) const {
  const auto member = object_->find(key);
  return member == object_->end() || member->is_null() ? nullptr : &*member;
}

const json& JsonKeys::require(const char* key, const char* expected) const {
  const json* value = find(key);
  if (value == nullptr) refuse(key, expected);
  return *value;
}

std::string JsonKeys::path(const std::string& key) const {
  return file_ + ": " + (prefix_.empty() ? key : prefix_ + "." + key);
}

void JsonKeys::refuse(const char* key, const std::string& expected) const {
  const auto member = object_->find(key);
  const std::string found = member == object_->end() ? "nothing" : shown(*member);
  throw InputError(text(path(key), ": found ", found, ", expected ", expected));
}

int64_t JsonKeys::size(const char* key) const {
  const json& value = require(key, size_wanted);
  if (!is_size(value)) refuse(key, size_wanted);
  return value.get<int64_t>();
}

std::optional<int64_t> JsonKeys::optional_size(const char* key) const {
  return has(key) ? std::optional(size(key)) : std::nullopt;
}

int64_t JsonKeys::count(const char* key) const {
  const json& value = require(key, count_wanted);
  if (!is_count(value)) refuse(key, count_wanted);
  return value.get<int64_t>();
}

std::optional<int64_t> JsonKeys::optional_count(const char* key) const {
  return has(key) ? std::optional(count(key)) : std::nullopt;
}

std::optional<std::vector<int64_t>> JsonKeys::optional_counts(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_count))
    refuse(key, "a list of integers from 0");
  return value->get<std::vector<int64_t>>();
}

double JsonKeys::positive(const char* key) const {
  const json& value = require(key, positive_wanted);
  if (!is_positive(value)) refuse(key, positive_wanted);
  return value.get<double>();
}

double JsonKeys::positive(const char* key, double when_absent) const {
  return has(key) ? positive(key) : when_absent;
}

double JsonKeys::non_negative(const char* key, double when_absent) const {
  const json* value = find(key);
  if (value == nullptr) return when_absent;
  const bool is_zero = value->is_number() && value->get<double>() == 0;
  if (!is_zero && !is_positive(*value)) refuse(key, "a finite number from 0");
  return value->get<double>();
}

bool JsonKeys::flag(const char* key, bool when_absent) const {
  const json* value = find(key);
  if (value == nullptr) return when_absent;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::string JsonKeys::word(const char* key) const {
  const json& value = require(key, word_wanted);
  if (!value.is_string()) refuse(key, word_wanted);
  return value.get<std::string>();
}

std::optional<std::string> JsonKeys::optional_word(const char* key) const {
  return has(key) ? std::optional(word(key)) : std::nullopt;
}

std::optional<std::vector<std::string>> JsonKeys::optional_words(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto is_word = [](const json& entry) { return entry.is_string(); };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_word))
    refuse(key, "a list of strings");
  return value->get<std::vector<std::string>>();
}

std::vector<std::string> JsonKeys::names() const {
  std::vector<std::string> names;
  for (const auto& member : object_->items())
    names.push_back(member.key());
  return names;
}

std::optional<JsonKeys> JsonKeys::optional_object(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return JsonKeys(*value, file_, prefix_.empty() ? key : prefix_ + "." + key);
}

}  // namespace spillway
