#include "tests/support/golden.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include "harness/error.h"

namespace spillway {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  check(stream.good(), path, " cannot be read");
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

Golden::Golden(const std::string& name)
    : path_(std::string(SPILLWAY_SOURCE_DIR) + "/tests/golden/" + name),
      bytes_(content_of(path_ + ".bin")),
      index_(nlohmann::json::parse(content_of(path_ + ".index.json"))) {
  for (const auto& tensor : index_.at("tensors")) {
    size_t elements = 1;
    for (const auto& extent : tensor.at("shape"))
      elements *= extent.get<size_t>();
    entries_[tensor.at("name")] = {tensor.at("offset").get<size_t>(), elements};
    if (tensor.at("name") == "tokens")
      tokens_shape_ = tensor.at("shape").get<std::vector<int64_t>>();
  }
}

std::string Golden::config_text() const { return content_of(path_ + ".config.json"); }

template <class T>
std::vector<T> Golden::read(const std::string& stored) const {
  const Entry& entry = entries_.at(stored);
  check(entry.offset + entry.elements * sizeof(T) <= bytes_.size(), stored, " ends outside ", path_,
        ".bin");
  std::vector<T> values(entry.elements);
  std::memcpy(values.data(), bytes_.data() + entry.offset, entry.elements * sizeof(T));
  return values;
}

std::vector<int32_t> Golden::tokens(int64_t shift) const {
  const std::vector<int32_t> rows = read<int32_t>("tokens");
  std::vector<int32_t> picked;
  for (int64_t b = 0; b < batch(); ++b) {
    const auto first = rows.begin() + b * (seq() + 1) + shift;
    picked.insert(picked.end(), first, first + seq());
  }
  return picked;
}

std::vector<std::string> Golden::stored_names(const std::string& kind,
                                              const std::string& name) const {
  const std::string layers = "layers.";
  if (name.rfind(layers, 0) != 0)
    return {kind + (name == "lm_head.weight" ? "/" : "/model.") + name};
  std::vector<std::string> names;
  for (int64_t layer = 0;; ++layer) {
    const std::string stored = text(kind, "/model.layers.", layer, ".", name.substr(layers.size()));
    if (layer > 0 && !entries_.contains(stored)) return names;
    names.push_back(stored);
  }
}

bool Golden::has(const std::string& kind, const std::string& name) const {
  return entries_.contains(stored_names(kind, name)[0]);
}

std::vector<float> Golden::tensor(const std::string& kind, const std::string& name) const {
  std::vector<float> values;
  for (const std::string& stored : stored_names(kind, name)) {
    const std::vector<float> one = read<float>(stored);
    values.insert(values.end(), one.begin(), one.end());
  }
  return values;
}

}  // namespace spillway
