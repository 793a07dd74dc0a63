// Reads tests/golden: values of a training step computed by an independent implementation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace spillway {

class Golden {
 public:
  explicit Golden(const std::string& name);  // "tiny", "odd", "mha"

  std::string config_text() const;
  double number(const char* key) const { return index_.at(key).get<double>(); }
  int64_t batch() const { return tokens_shape_[0]; }
  int64_t seq() const { return tokens_shape_[1] - 1; }
  // [batch * seq]: what goes in, and the token that follows each.
  std::vector<int32_t> inputs() const { return tokens(0); }
  std::vector<int32_t> targets() const { return tokens(1); }

  // `kind` is "weight", "gradient" or "updated". A name without layer number
  // ("layers.mlp.up_proj.weight") gives all layers one after the other.
  bool has(const std::string& kind, const std::string& name) const;
  std::vector<float> tensor(const std::string& kind, const std::string& name) const;

 private:
  struct Entry {
    size_t offset = 0, elements = 0;
  };
  std::vector<int32_t> tokens(int64_t shift) const;
  std::vector<std::string> stored_names(const std::string& kind, const std::string& name) const;
  template <class T>
  std::vector<T> read(const std::string& stored) const;

  std::string path_, bytes_;
  nlohmann::json index_;
  std::map<std::string, Entry> entries_;
  std::vector<int64_t> tokens_shape_;
};

}  // namespace spillway
