// The file of chosen algorithms, and the choice.
#include "harness/cuda/algorithms.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "harness/error.h"
#include "harness/machine_json.h"

namespace spillway {
namespace {

using nlohmann::json;
using Object = json::value_t;

constexpr const char* file_format = "spillway algorithms 1";
constexpr size_t digits = 16;  // of a word

std::string words_text(const Algorithm& algorithm) {
  std::string all;
  for (const uint64_t word : algorithm.words) {
    std::array<char, digits> hex{};
    const std::to_chars_result written = std::to_chars(hex.begin(), hex.end(), word, 16);
    const std::string number(hex.begin(), written.ptr);
    all += std::string(digits - number.size(), '0') + number;
  }
  return all;
}

Algorithm parse_words(const std::string& all, const std::string& where) {
  Algorithm algorithm;
  bool right = all.size() == digits * algorithm.words.size();
  for (size_t i = 0; right && i < algorithm.words.size(); ++i) {
    const char *begin = all.data() + i * digits, *end = begin + digits;
    const auto [rest, error] = std::from_chars(begin, end, algorithm.words[i], 16);
    right = error == std::errc() && rest == end;
  }
  if (!right)
    throw InputError(text(where, ": key \"algorithm\" is \"", all, "\", expected ",
                          digits * algorithm.words.size(), " hexadecimal digits"));
  return algorithm;
}

Choice parse_choice(const json& entry, const std::string& where) {
  if (!entry.is_object())
    throw InputError(text(where, ": found ", entry.dump(), ", expected an object"));
  refuse_other_keys(entry, {"algorithm", "seconds"}, where);
  const json& words = member(entry, "algorithm", Object::string, "a string", where);
  return {parse_words(words.get<std::string>(), where), number_member(entry, "seconds", 0, where)};
}

std::string contents_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream all;
  if (in) all << in.rdbuf();
  if (!in) throw InputError(text(file.string(), ": cannot be read; expected a file of algorithms"));
  return all.str();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

std::optional<Choice> choose(const std::vector<Algorithm>& candidates,
                             const SecondsOf& seconds_of) {
  static_assert(choice_rounds % 2 == 1, "a median is one of the timings");
  std::vector<std::vector<double>> timings(candidates.size());
  for (int round = 0; round < choice_rounds; ++round)
    for (size_t i = 0; i < candidates.size(); ++i)
      timings[i].push_back(seconds_of(candidates[i]));
  std::optional<Choice> best;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double seconds = median(timings[i]);
    if (!best || seconds < best->seconds) best = {candidates[i], seconds};
  }
  return best;
}

std::filesystem::path default_algorithm_file() {
  const auto in = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  std::filesystem::path cache = in("XDG_CACHE_HOME");
  if (cache.empty() ||
      cache.is_relative()) {  // relative ones are to be ignored (XDG Base Directory)
    cache = in("HOME");
    if (cache.empty())
      throw InputError(
          "--algorithms: found none, and neither XDG_CACHE_HOME nor HOME is set; expected a file");
    cache /= ".cache";
  }
  return cache / "spillway" / "algorithms.json";
}

AlgorithmFile::AlgorithmFile(std::filesystem::path file, std::string machine)
    : file_(std::move(file)), machine_(std::move(machine)), choices_(read()[machine_]) {}

std::map<std::string, AlgorithmFile::Choices, std::less<>> AlgorithmFile::read() const {
  std::map<std::string, Choices, std::less<>> machines;
  std::error_code unknown;
  if (!std::filesystem::exists(file_, unknown) && !unknown) return machines;
  const std::string name = file_.string();
  const json all = parse_without_duplicates(contents_of(file_), name);
  if (!all.is_object() || !all.contains("format") || all["format"] != file_format)
    throw InputError(
        text(name, ": key \"format\" is ",
             all.is_object() && all.contains("format") ? all["format"].dump() : "missing",
             ", expected \"", file_format, "\""));
  refuse_other_keys(all, {"format", "machines"}, name);
  for (const auto& [machine, products] :
       member(all, "machines", Object::object, "an object", name).items()) {
    if (!products.is_object())
      throw InputError(text(name, ", \"", machine, "\": found ", products.dump(),
                            ", expected an object of products"));
    for (const auto& [product, entry] : products.items())
      machines[machine][product] =
          parse_choice(entry, text(name, ", \"", machine, "\", \"", product, "\""));
  }
  return machines;
}

const Choice* AlgorithmFile::find(const std::string& product) const {
  const auto found = choices_.find(product);
  return found == choices_.end() ? nullptr : &found->second;
}

void AlgorithmFile::add(const std::string& product, const Choice& choice) {
  choices_[product] = added_[product] = choice;
}

std::string AlgorithmFile::where(const std::string& product) const {
  return text(file_.string(), ", \"", machine_, "\", \"", product, "\"");
}

void AlgorithmFile::save() {
  if (added_.empty()) return;
  auto machines = read();
  machines[machine_].insert(added_.begin(), added_.end());  // those there stay
  choices_ = machines[machine_];
  json all = {{"format", file_format}, {"machines", json::object()}};
  for (const auto& [machine, choices] : machines)
    for (const auto& [product, choice] : choices)
      all["machines"][machine][product] = {{"algorithm", words_text(choice.algorithm)},
                                           {"seconds", choice.seconds}};
  const std::filesystem::path beside = file_.string() + text(".", getpid());
  std::error_code failed;
  if (file_.has_parent_path()) std::filesystem::create_directories(file_.parent_path(), failed);
  std::ofstream out(beside, std::ios::binary);
  out << all.dump(1) << '\n';
  out.close();
  if (out) std::filesystem::rename(beside, file_, failed);
  if (!out || failed) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw InputError(text("--algorithms: ", file_.string(),
                          " cannot be written; expected a file in a directory that can"));
  }
  added_.clear();
}

}  // namespace spillway
