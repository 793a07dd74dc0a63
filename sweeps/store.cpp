// Where a sweep's results live.
#include "sweeps/store.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "harness/error.h"

namespace spillway {

namespace {

using nlohmann::json;

constexpr const char* results_file = "results.jsonl";
constexpr const char* visits_file = "visits.jsonl";
constexpr const char* state_file = "sweep.json";
constexpr const char* lock_file = ".lock";

[[noreturn]] void io_error(const std::string& path, const char* what) {
  throw InputError(text(path, ": ", what, ": ", std::strerror(errno)));
}

std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_all(int file, const std::string& path, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t written = ::write(file, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) io_error(path, "cannot be written");
    done += static_cast<size_t>(written);
  }
  if (::fsync(file) != 0) io_error(path, "cannot be synced");
}

// Calls `each` with every whole line and its place; cuts a last line without line end, which a kill left.
void read_lines(const std::string& path,
                const std::function<void(const json&, const std::string& where)>& each) {
  const std::string contents = contents_of(path);
  const size_t whole = contents.rfind('\n') == std::string::npos ? 0 : contents.rfind('\n') + 1;
  if (whole < contents.size()) std::filesystem::resize_file(path, whole);
  int64_t number = 0;
  for (size_t begin = 0; begin < whole;) {
    const size_t end = contents.find('\n', begin);
    const std::string where = text(path, ":", ++number);
    json line = json::parse(contents.begin() + static_cast<std::ptrdiff_t>(begin),
                            contents.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (!line.is_object() || !line.contains("key") || !line["key"].is_string())
      throw InputError(text(where,
                            ": found a line that is not a result with a key, "
                            "expected one JSON object a line as a sweep writes it"));
    each(line, where);
    begin = end + 1;
  }
}

// Always whole, as it is renamed into its place: another content is not ours to replace.
json read_state(const std::string& path) {
  if (!std::filesystem::exists(path)) return json::object();
  json state = json::parse(contents_of(path), nullptr, false);
  if (!state.is_object())
    throw InputError(
        text(path, ": found something else, expected one JSON object as a sweep writes it"));
  return state;
}

int lock(const std::string& directory) {
  const std::string path = directory + "/" + lock_file;
  const int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (file < 0) io_error(path, "cannot be opened");
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    ::close(file);
    throw InputError(text(
        directory, ": in use by another process, expected a directory of one sweep at a time"));
  }
  return file;
}

}  // namespace

Store::Store(const std::string& directory) : directory_(directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error || !std::filesystem::is_directory(directory))
    throw InputError(text(directory, ": cannot be made a directory: ", error.message()));
  lock_ = lock(directory);
}

// Delegates, so that the destructor frees the lock when the contents are refused.
Store::Store(const std::string& directory, const std::string& sweep) : Store(directory) {
  const std::string path = directory + "/" + state_file;
  state_ = read_state(path);
  if (const json name = resolved("name"); !name.is_null() && name != sweep)
    throw InputError(text(path, ": found results of sweep ", name.dump(), ", expected '", sweep,
                          "' or an empty directory"));
  read_lines(directory + "/" + results_file, [&](const json& line, const std::string& where) {
    // Which of the two is the point's result nobody can say; a report would show both.
    if (!results_.emplace(line["key"].get<std::string>(), line).second)
      throw InputError(text(where, ": found a second result of the key ", line["key"].dump(),
                            ", expected one a point"));
  });
  read_lines(directory + "/" + visits_file, [&](const json& line, const std::string&) {
    visits_[line["key"].get<std::string>()].push_back(line);
  });
  if (resolved("name").is_null()) resolve("name", sweep);
}

Store::~Store() { ::close(lock_); }

const std::vector<json>& Store::visits(const std::string& key) const {
  static const std::vector<json> none;
  const auto found = visits_.find(key);
  return found == visits_.end() ? none : found->second;
}

void Store::append(const char* file, const json& line) const {
  const std::string path = directory_ + "/" + file;
  const int out = ::open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
  if (out < 0) io_error(path, "cannot be opened");
  const off_t before = ::lseek(out, 0, SEEK_END);
  try {
    write_all(out, path, line.dump() + "\n");
  } catch (...) {
    // The sweep goes on: half a line (a full disk) must not stay before the next one.
    static_cast<void>(!::ftruncate(out, before));
    ::close(out);
    throw;
  }
  ::close(out);
}

void Store::add_result(const std::string& key, json row) {
  row["key"] = key;
  append(results_file, row);
  results_.emplace(key, std::move(row));
}

void Store::add_visit(const std::string& key, json visit) {
  visit["key"] = key;
  append(visits_file, visit);
  visits_[key].push_back(std::move(visit));
}

json Store::resolved(const std::string& name) const {
  return state_.contains(name) ? state_.at(name) : json();
}

// Written beside and renamed, so that a kill leaves the old state or the new one.
void Store::resolve(const std::string& name, const json& value) {
  state_[name] = value;
  const std::string path = directory_ + "/" + state_file, beside = path + ".new";
  const int out = ::open(beside.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  if (out < 0) io_error(beside, "cannot be opened");
  write_all(out, beside, state_.dump(1) + "\n");
  ::close(out);
  std::filesystem::rename(beside, path);
}

}  // namespace spillway
