// Runs the built program as a user does.
#include "tests/sweeps/support_cli.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace spillway {

namespace {

// The program, behind an emulator where tests run under one: SPILLWAY_COMMAND of
// scripts/tests.cmake.
std::vector<std::string> command_line(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  std::stringstream command(SPILLWAY_COMMAND);
  for (std::string word; std::getline(command, word, '|');)
    words.push_back(word);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

void redirect(int descriptor, const std::string& path) {
  const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(126);
}

}  // namespace

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

namespace {

// The program with these files as its stdout and stderr; its exit code.
int run_into(const std::string& out, const std::string& err, const Words& arguments) {
  const ScratchDir work;
  std::vector<std::string> words = command_line(arguments);
  std::vector<char*> argv;
  for (std::string& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    redirect(STDOUT_FILENO, out);
    redirect(STDERR_FILENO, err);
    if (::chdir(work.path().c_str()) == 0) ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

Finished spillway_cli(const Words& arguments) {
  const ScratchDir output;
  const std::string out = output.path() + "/out", err = output.path() + "/err";
  const int exit_code = run_into(out, err, arguments);
  return {exit_code, read_file(out), read_file(err)};
}

void expect_refused(const Words& arguments, const Words& mentions) {
  SCOPED_TRACE(testing::PrintToString(arguments));
  const Finished result = spillway_cli(arguments);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.out, testing::IsEmpty());
  for (const std::string& word : mentions)
    EXPECT_THAT(result.err, testing::HasSubstr(word));
}

Finished spillway_cli_full_disk(const Words& arguments) {
  const ScratchDir output;
  const std::string err = output.path() + "/err";
  const int exit_code = run_into("/dev/full", err, arguments);
  return {exit_code, "", read_file(err)};
}

nlohmann::json Finished::json() const {
  try {
    return nlohmann::json::parse(out);
  } catch (const nlohmann::json::exception& error) {
    ADD_FAILURE() << error.what() << "\nstdout: " << out << "\nstderr: " << err;
    return nullptr;
  }
}

ScratchDir::ScratchDir() : path_(testing::TempDir() + "spillway-XXXXXX") {
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no directory at " + path_);
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ScratchDir::file(const std::string& name, const std::string& contents) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) ADD_FAILURE() << path << " cannot be read";
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string case_file(const std::string& name) {
  return std::string(SPILLWAY_SOURCE_DIR) + "/tests/workloads/cases/" + name;
}

}  // namespace spillway
