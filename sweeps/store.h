// Where a sweep's results live: one directory, safe against being killed at any moment.
//   results.jsonl  one line a finished point
//   visits.jsonl   one line a finished visit of an executed point (its raw measurements)
//   sweep.json     what was resolved once: link rates, fitted figures, warm-up
// Lines are appended, flushed and synced to disk; a half last line is cut off when the directory is
// opened again.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace spillway {

class Store {
 public:
  // Creates the directory or continues what it holds. Throws InputError: not a directory, in use by
  // another process, a line (file and number) that is not what a store writes, a second result
  // of one key, results of another sweep (`sweep` is its name).
  Store(const std::string& directory, const std::string& sweep);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  bool has_result(const std::string& key) const { return results_.count(key) > 0; }
  // Visits of one point, in order.
  const std::vector<nlohmann::json>& visits(const std::string& key) const;
  const std::map<std::string, nlohmann::json>& results() const { return results_; }

  // `row` gets the key as "key". Each returns when the line is on disk.
  void add_result(const std::string& key, nlohmann::json row);
  void add_visit(const std::string& key, nlohmann::json visit);

  // What was resolved once, by name; null when it was not yet.
  nlohmann::json resolved(const std::string& name) const;
  void resolve(const std::string& name, const nlohmann::json& value);

 private:
  explicit Store(const std::string& directory);  // makes and locks it
  void append(const char* file, const nlohmann::json& line) const;

  std::string directory_;
  int lock_ = -1;
  nlohmann::json state_;
  std::map<std::string, nlohmann::json> results_;
  std::map<std::string, std::vector<nlohmann::json>> visits_;
};

}  // namespace spillway
