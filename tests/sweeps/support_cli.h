// Runs the built program as a user does.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace spillway {

struct Finished {
  int exit_code = -1;  // -1: ended by a signal
  std::string out, err;

  // stdout as JSON; a test failure and null when it is not exactly one JSON value.
  nlohmann::json json() const;
};

using Words = std::vector<std::string>;

// `words`, then `more`.
Words with(Words words, const Words& more);

// Waits for `spillway arguments...`. Its working directory is an empty one that is removed again.
Finished spillway_cli(const Words& arguments);

// The same where nothing can be written to stdout.
Finished spillway_cli_full_disk(const Words& arguments);

// Exit code 2, nothing on stdout, and every word of `mentions` on stderr.
void expect_refused(const Words& arguments, const Words& mentions);

// A directory that lives as long as this.
class ScratchDir {
 public:
  ScratchDir();
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  const std::string& path() const { return path_; }
  // Path of a new file with these contents.
  std::string file(const std::string& name, const std::string& contents) const;

 private:
  std::string path_;
};

std::string read_file(const std::string& path);

// tests/workloads/cases/NAME: configs that the command line is tested on too.
std::string case_file(const std::string& name);

}  // namespace spillway
