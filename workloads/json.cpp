#include "workloads/json.h"

#include <memory>
#include <utility>

#include "harness/error.h"

namespace spillway {
namespace {

using nlohmann::json;

// Builds the DOM as nlohmann's own parser does, but looks at each key before it replaces an
// earlier one, and knows which key a bad number belongs to.
class DomBuilder : public nlohmann::json_sax<json> {
 public:
  explicit DomBuilder(std::string file) : file_(std::move(file)) {}
  ParsedJson take() && { return std::move(parsed_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(json::binary(value)); }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    open_.back().key = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string& token,
                   const nlohmann::detail::exception& error) override;

 private:
  struct Container {
    json value;
    std::string key;  // of the member being read
  };

  bool open(json empty) {
    open_.push_back({std::move(empty), {}});
    return true;
  }
  bool close() {
    json value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }
  bool add(json value);
  std::string path() const;

  std::string file_;
  ParsedJson parsed_;
  std::vector<Container> open_;  // from the root inwards
};

bool DomBuilder::add(json value) {
  if (open_.empty()) {
    parsed_.root = std::move(value);
    return true;
  }
  Container& parent = open_.back();
  if (parent.value.is_array()) {
    parent.value.push_back(std::move(value));
    return true;
  }
  if (auto old = parent.value.find(parent.key); old != parent.value.end())
    parsed_.warnings.push_back(text(file_, ": key ", path(), " is given twice, first ", shown(*old),
                                    ", then ", shown(value), "; the last one counts"));
  parent.value[parent.key] = std::move(value);
  return true;
}

// Dotted names of the objects around the member being read: rope_scaling.factor.
std::string DomBuilder::path() const {
  std::string path;
  for (const Container& container : open_)
    if (container.value.is_object()) path += (path.empty() ? "" : ".") + container.key;
  return path.empty() ? "the document" : path;
}

bool DomBuilder::parse_error(std::size_t, const std::string& token,
                             const nlohmann::detail::exception& error) {
  if (dynamic_cast<const json::out_of_range*>(&error) != nullptr)
    throw InputError(text(file_, ": ", path(), ": found ", token,
                          ", expected a number within the range of a double"));
  // "[json.exception.parse_error.101] parse error at line 12, column 28: syntax error ...": all of
  // it but the bracket is for the reader.
  std::string what = error.what();
  if (auto end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
  throw InputError(text(file_, ": ", what));
}

}  // namespace

ParsedJson parse_json(const std::string& json_text, const std::string& file) {
  // The parser takes a NUL for the end of the text.
  if (const size_t nul = json_text.find('\0'); nul != std::string::npos)
    throw InputError(text(file, ": byte ", nul, ": found a NUL, expected text"));
  DomBuilder builder(file);
  json::sax_parse(json_text, &builder);
  return std::move(builder).take();
}

std::string shown(const nlohmann::json& value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  return value.dump();
}

}  // namespace spillway
