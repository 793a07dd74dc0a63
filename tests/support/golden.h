// Reads tests/golden: values of a training step computed by an independent implementation.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace spillway {

// Layers of one stack, where dense and expert layers have stacks of their own.
struct LayerRange {
  int64_t first = 0, end = std::numeric_limits<int64_t>::max();
};

// What a router chose, [batch * seq, top_k]: experts in ascending order, so sort before comparing.
struct RouterChoices {
  int64_t top_k = 0;
  std::vector<int32_t> experts;
  std::vector<float> weights;  // what the experts' outputs are multiplied by
};

class Golden {
 public:
  explicit Golden(const std::string& name);  // a case of make_golden.py: "tiny", "tiny_mixtral"

  std::string config_text() const;
  double number(const char* key) const { return index_.at(key).get<double>(); }
  int64_t batch() const { return tokens_shape_[0]; }
  int64_t seq() const { return tokens_shape_[1] - 1; }
  // [batch * seq]: what goes in, and the token that follows each.
  std::vector<int32_t> inputs() const { return tokens(0); }
  std::vector<int32_t> targets() const { return tokens(1); }

  // `kind` is "weight", "gradient" or "updated". A name without layer number
  // ("layers.mlp.up_proj.weight") gives all layers of the range that hold it, one after the other;
  // one without expert number ("layers.mlp.experts.up_proj.weight") all experts of each layer.
  bool has(const std::string& kind, const std::string& name, LayerRange layers = {}) const;
  std::vector<float> tensor(const std::string& kind, const std::string& name,
                            LayerRange layers = {}) const;
  std::vector<int64_t> router_layers() const;  // that have choices()
  RouterChoices choices(int64_t layer) const;

 private:
  struct Entry {
    size_t offset = 0, elements = 0;
    std::vector<int64_t> shape;
  };
  std::vector<int32_t> tokens(int64_t shift) const;
  bool any_under(const std::string& prefix) const;
  std::string router_of(int64_t layer) const;
  std::vector<std::string> with_experts(const std::string& stored) const;
  std::vector<std::string> stored_names(const std::string& kind, const std::string& name,
                                        LayerRange layers) const;
  template <class T>
  std::vector<T> read(const std::string& stored) const;

  std::string path_, bytes_;
  nlohmann::json index_;
  std::map<std::string, Entry> entries_;
  std::vector<int64_t> tokens_shape_;
};

}  // namespace spillway
