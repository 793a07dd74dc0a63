// Finds a model: shipped ones by name, others by the path of their config.json.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "harness/embedded.h"
#include "harness/error.h"
#include "workloads/config.h"

namespace spillway {
namespace {

// Real ones have a few KiB; what is larger (a checkpoint, /dev/zero) is not a config.
constexpr size_t max_config_bytes = size_t{16} << 20;

std::string_view model_name(const EmbeddedFile& file) {
  return file.name.substr(0, file.name.rfind(".json"));
}

// Parsed once a process: what is compiled in does not change, and points by the thousand name it.
const ModelConfig& shipped(const EmbeddedFile& file) {
  static std::mutex guard;
  static std::map<std::string_view, ModelConfig> parsed;
  const std::lock_guard lock(guard);
  const auto found = parsed.find(file.name);
  if (found != parsed.end()) return found->second;
  ModelConfig config = parse_config(std::string(file.text), std::string(file.name));
  config.name = model_name(file);
  return parsed.emplace(file.name, std::move(config)).first->second;
}

std::string read_config_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw InputError(text(path, ": cannot be read: ", std::strerror(errno)));
  std::string content(max_config_bytes + 1, '\0');
  stream.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (stream.bad()) throw InputError(text(path, ": cannot be read: ", std::strerror(errno)));
  content.resize(static_cast<size_t>(stream.gcount()));
  if (content.size() > max_config_bytes)
    throw InputError(text(path, ": found more than 16 MiB, expected a config.json"));
  return content;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_models())
    names.emplace_back(model_name(file));
  return names;
}

ModelConfig load_model(const std::string& name_or_path) {
  for (const EmbeddedFile& file : embedded_models())
    if (model_name(file) == name_or_path) return shipped(file);
  std::error_code error;  // a path that cannot be looked at is reported by the read below
  const auto status = std::filesystem::status(name_or_path, error);
  if (std::filesystem::is_directory(status))
    throw InputError(text(name_or_path, ": found a directory, expected a config.json"));
  if (status.type() == std::filesystem::file_type::not_found) {
    std::string names;
    for (const std::string& name : model_names())
      names += (names.empty() ? "" : ", ") + name;
    throw InputError(text("model ", name_or_path,
                          ": no such file, expected the path of a config.json",
                          " or a shipped model: ", names));
  }
  return parse_config(read_config_file(name_or_path), name_or_path);
}

}  // namespace spillway
