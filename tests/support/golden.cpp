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
    const auto shape = tensor.at("shape").get<std::vector<int64_t>>();
    size_t elements = 1;
    for (const int64_t extent : shape)
      elements *= static_cast<size_t>(extent);
    entries_[tensor.at("name")] = {tensor.at("offset").get<size_t>(), elements, shape};
    if (tensor.at("name") == "tokens") tokens_shape_ = shape;
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

bool Golden::any_under(const std::string& prefix) const {
  const auto it = entries_.lower_bound(prefix);
  return it != entries_.end() && it->first.starts_with(prefix);
}

std::vector<std::string> Golden::with_experts(const std::string& stored) const {
  const std::string experts = ".experts.";
  const size_t found = stored.find(experts);
  if (entries_.contains(stored)) return {stored};
  if (found == std::string::npos) return {};
  std::vector<std::string> names;
  const std::string before = stored.substr(0, found + experts.size());
  const std::string after = stored.substr(found + experts.size());
  for (int64_t expert = 0;; ++expert) {
    const std::string one = text(before, expert, ".", after);
    if (!entries_.contains(one)) return names;
    names.push_back(one);
  }
}

std::vector<std::string> Golden::stored_names(const std::string& kind, const std::string& name,
                                              LayerRange layers) const {
  const std::string stack = "layers.";
  if (!name.starts_with(stack))
    return with_experts(kind + (name == "lm_head.weight" ? "/" : "/model.") + name);
  std::vector<std::string> names;
  for (int64_t layer = layers.first; layer < layers.end; ++layer) {
    const std::string prefix = text(kind, "/model.layers.", layer, ".");
    if (!any_under(prefix)) break;
    for (std::string& stored : with_experts(prefix + name.substr(stack.size())))
      names.push_back(std::move(stored));
  }
  return names;
}

bool Golden::has(const std::string& kind, const std::string& name, LayerRange layers) const {
  return !stored_names(kind, name, layers).empty();
}

std::vector<float> Golden::tensor(const std::string& kind, const std::string& name,
                                  LayerRange layers) const {
  std::vector<float> values;
  const std::vector<std::string> names = stored_names(kind, name, layers);
  check(!names.empty(), path_, ".bin has no ", kind, " ", name);
  for (const std::string& stored : names) {
    const std::vector<float> one = read<float>(stored);
    values.insert(values.end(), one.begin(), one.end());
  }
  return values;
}

// Empty for a layer without router; Mixtral calls its own "block_sparse_moe.gate".
std::string Golden::router_of(int64_t layer) const {
  for (const char* block : {"mlp", "block_sparse_moe"}) {
    const std::string router = text("model.layers.", layer, ".", block, ".gate");
    if (entries_.contains("experts/" + router)) return router;
  }
  return {};
}

std::vector<int64_t> Golden::router_layers() const {
  std::vector<int64_t> found;
  for (int64_t layer = 0; any_under(text("weight/model.layers.", layer, ".")); ++layer)
    if (!router_of(layer).empty()) found.push_back(layer);
  return found;
}

RouterChoices Golden::choices(int64_t layer) const {
  const std::string router = router_of(layer);
  check(!router.empty(), path_, ".bin has no router in layer ", layer);
  return {entries_.at("experts/" + router).shape.back(), read<int32_t>("experts/" + router),
          read<float>("expert_weights/" + router)};
}

}  // namespace spillway
