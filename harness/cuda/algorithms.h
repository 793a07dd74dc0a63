// Which algorithm a library's product is computed by: chosen once by timing, kept in a file that
// later processes read, so that two policies run the same kernels. Knows no GPU.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/cuda/products.h"

namespace spillway {

struct Choice {
  Algorithm algorithm;
  double seconds = 0;  // median, when it was chosen
  friend bool operator==(const Choice&, const Choice&) = default;
};

// Times every candidate in turn, so many rounds, and takes the lowest median; the first of equals.
// Null: there is none.
inline constexpr int choice_rounds = 5;
using SecondsOf = std::function<double(const Algorithm&)>;  // of one run
std::optional<Choice> choose(const std::vector<Algorithm>& candidates, const SecondsOf& seconds_of);

// $XDG_CACHE_HOME/spillway/algorithms.json, or ~/.cache/spillway/algorithms.json. Throws InputError
// where the environment has neither.
std::filesystem::path default_algorithm_file();

// The choices of one machine: a GPU, a driver and a library, each with its version. The file holds
// those of several. JSON: {"format": "spillway algorithms 1", "machines": {machine: {product:
// {"algorithm": eight words of 16 hexadecimal digits in one, "seconds": number}}}}.
class AlgorithmFile {
 public:
  // Reads it; one that does not exist is empty. Throws InputError naming file and key where it
  // cannot be read, is no such file, or has an entry that is malformed.
  AlgorithmFile(std::filesystem::path file, std::string machine);

  const Choice* find(const std::string& product) const;
  void add(const std::string& product, const Choice& choice);
  // Puts what was added beside what the file holds by now: other machines' choices, and those that
  // another process made meanwhile, which stay and are found from then on. Written beside and
  // renamed. Throws InputError.
  void save();

  const std::filesystem::path& path() const { return file_; }
  std::string where(const std::string& product) const;  // for messages: file and key

 private:
  using Choices = std::map<std::string, Choice, std::less<>>;
  std::map<std::string, Choices, std::less<>> read() const;

  std::filesystem::path file_;
  std::string machine_;
  Choices choices_, added_;
};

}  // namespace spillway
