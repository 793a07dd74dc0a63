// A Hugging Face config.json as numbers. No size key has a default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/program.h"

namespace spillway {

// What a proxy stands for (key `proxy_of` of a shipped config).
struct ProxyOf {
  std::string model;
  int64_t micro_batch = 0, seq = 0, devices = 0;
  std::string precision, policy;
};

struct ModelConfig {
  std::string name;  // of a shipped model, else the file
  std::string file;
  std::string model_type;
  int64_t hidden_size = 0, intermediate_size = 0, layers = 0, vocab_size = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  double rms_norm_eps = 0;
  Rope rope;
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;
  // Defaults of a point for a proxy (keys `micro_batch`, `seq` beside `proxy_of`).
  std::optional<ProxyOf> proxy_of;
  std::optional<int64_t> micro_batch, seq;
  std::vector<std::string> warnings;  // a duplicate key (the last counts), for instance
};

// Throws InputError: file, line and column for malformed JSON; file and key, found and expected for
// a bad value; the list of supported architectures for one we do not know.
ModelConfig parse_config(const std::string& json_text, const std::string& file);

// A shipped model by name, else a file by path. Throws InputError listing the shipped names.
ModelConfig load_model(const std::string& name_or_path);
std::vector<std::string> model_names();

}  // namespace spillway
