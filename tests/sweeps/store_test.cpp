// The result store survives being killed at any byte, and takes nobody else's files for its own.
#include "sweeps/store.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "harness/error.h"
#include "tests/sweeps/support_cli.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

// The message of the InputError that opening throws; empty when it opens.
std::string refusal(const std::string& directory, const std::string& sweep = "mine") {
  try {
    const Store store(directory, sweep);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Every line must be one JSON object with the key of its point.
std::vector<std::string> keys_in(const std::string& path) {
  std::vector<std::string> keys;
  const std::string contents = read_file(path);
  EXPECT_TRUE(contents.empty() || contents.back() == '\n') << path;
  std::istringstream lines(contents);
  for (std::string line; std::getline(lines, line);)
    keys.push_back(json::parse(line).at("key").get<std::string>());
  return keys;
}

// A directory with two results and three visits of two points.
void fill(const std::string& directory) {
  Store store(directory, "mine");
  store.add_result("a", {{"status", "ok"}, {"text", "quote \" newline \n brace }"}});
  store.add_visit("b", {{"visit", 0}});
  store.add_visit("c", {{"visit", 0}});
  store.add_visit("b", {{"visit", 1}, {"seconds", 0.1}});
  store.add_result("b", {{"status", "oom"}});
}

TEST(StoreTest, GivesBackWhatItWasGiven) {
  const ScratchDir scratch;
  const std::string directory = scratch.path() + "/deep/er";
  fill(directory);
  const Store store(directory, "mine");
  ASSERT_EQ(store.results().size(), 2U);
  EXPECT_TRUE(store.has_result("a"));
  EXPECT_FALSE(store.has_result("c"));
  EXPECT_EQ(store.results().at("a"),
            json({{"key", "a"}, {"status", "ok"}, {"text", "quote \" newline \n brace }"}}));
  ASSERT_EQ(store.visits("b").size(), 2U);
  EXPECT_EQ(store.visits("b")[1], json({{"key", "b"}, {"visit", 1}, {"seconds", 0.1}}));
  EXPECT_EQ(store.visits("c").size(), 1U);
  EXPECT_TRUE(store.visits("nobody").empty());
}

TEST(StoreTest, AppendsToWhatItHolds) {
  const ScratchDir scratch;
  fill(scratch.path());
  Store(scratch.path(), "mine").add_result("d", {{"status", "ok"}});
  Store(scratch.path(), "mine").add_visit("b", {{"visit", 2}});
  EXPECT_EQ(keys_in(scratch.path() + "/results.jsonl"), (std::vector<std::string>{"a", "b", "d"}));
  EXPECT_EQ(keys_in(scratch.path() + "/visits.jsonl"),
            (std::vector<std::string>{"b", "c", "b", "b"}));
}

// Cuts a file at every byte of its last line, opens, appends, and looks at both.
class CutTest : public testing::TestWithParam<const char*> {
 protected:
  void open_after_cut_at(const std::string& whole, size_t begin, size_t end) {
    const std::string path = scratch_.path() + "/" + GetParam();
    write(path, whole.substr(0, end));
    {
      const Store store(scratch_.path(), "mine");
      const bool is_results = std::string(GetParam()) == "results.jsonl";
      EXPECT_EQ(store.results().size(), is_results ? 1U : 2U);
      EXPECT_EQ(store.visits("b").size(), is_results ? 2U : 1U);
    }
    EXPECT_EQ(read_file(path), whole.substr(0, begin));
    {
      Store store(scratch_.path(), "mine");
      store.add_result("new", {{"status", "ok"}});
      store.add_visit("new", {{"visit", 0}});
    }
    const std::vector<std::string> keys = keys_in(path);
    EXPECT_EQ(keys.back(), "new");
    EXPECT_EQ(read_file(path).substr(0, begin), whole.substr(0, begin));
  }

  ScratchDir scratch_;
};

TEST_P(CutTest, NeverShowsHalfALineAndGoesOn) {
  for (const char* file : {"results.jsonl", "visits.jsonl"})
    fs::remove(scratch_.path() + "/" + file);
  fill(scratch_.path());
  const std::string results = read_file(scratch_.path() + "/results.jsonl");
  const std::string visits = read_file(scratch_.path() + "/visits.jsonl");
  const std::string& whole = std::string(GetParam()) == "results.jsonl" ? results : visits;
  const size_t begin = whole.rfind('\n', whole.size() - 2) + 1;
  for (size_t end = begin; end < whole.size(); ++end) {
    SCOPED_TRACE(testing::Message() << "cut after byte " << end << " of " << whole.size());
    write(scratch_.path() + "/results.jsonl", results);
    write(scratch_.path() + "/visits.jsonl", visits);
    open_after_cut_at(whole, begin, end);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, CutTest, testing::Values("results.jsonl", "visits.jsonl"),
                         [](const auto& param) {
                           const std::string name = param.param;
                           return name.substr(0, name.find('.'));
                         });

TEST(StoreTest, CutsAnOnlyLine) {
  const ScratchDir scratch;
  Store(scratch.path(), "mine").add_result("a", {{"status", "ok"}});
  fs::resize_file(scratch.path() + "/results.jsonl", 7);
  EXPECT_FALSE(Store(scratch.path(), "mine").has_result("a"));
  EXPECT_EQ(fs::file_size(scratch.path() + "/results.jsonl"), 0U);
}

// While it lives no file of this process grows beyond `bytes`, as if the disk were full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST(StoreTest, LeavesNoHalfLineWhenTheDiskIsFull) {
  const ScratchDir scratch;
  const std::string path = scratch.path() + "/visits.jsonl";
  Store store(scratch.path(), "mine");
  store.add_visit("a", {{"visit", 0}});
  const std::string before = read_file(path);
  {
    const FullDisk full(before.size() + 5);
    EXPECT_THROW(store.add_visit("a", {{"visit", 1}}), InputError);
  }
  EXPECT_EQ(read_file(path), before);
  EXPECT_EQ(store.visits("a").size(), 1U);
  store.add_visit("a", {{"visit", 1}});
  EXPECT_EQ(keys_in(path), (std::vector<std::string>{"a", "a"}));
}

TEST(StoreTest, RefusesResultsOfAnotherSweep) {
  const ScratchDir scratch;
  fill(scratch.path());
  EXPECT_THAT(refusal(scratch.path(), "theirs"),
              AllOf(HasSubstr("sweep.json"), HasSubstr("mine"), HasSubstr("theirs")));
  EXPECT_EQ(refusal(scratch.path(), "mine"), "");
}

TEST(StoreTest, RefusesASecondOneWhileTheFirstLives) {
  const ScratchDir scratch;
  {
    Store first(scratch.path(), "mine");
    EXPECT_THAT(refusal(scratch.path()), AllOf(HasSubstr(scratch.path()), HasSubstr("in use")));
    first.add_result("a", {{"status", "ok"}});
  }
  EXPECT_EQ(refusal(scratch.path()), "");
  EXPECT_TRUE(Store(scratch.path(), "mine").has_result("a"));
}

TEST(StoreTest, ReleasesTheDirectoryItRefused) {
  const ScratchDir scratch;
  fill(scratch.path());
  ASSERT_NE(refusal(scratch.path(), "theirs"), "");
  EXPECT_EQ(refusal(scratch.path()), "");
}

TEST(StoreTest, RefusesALineItDidNotWriteNamingFileAndNumber) {
  const std::string good = R"({"key":"a","status":"ok"})";
  const std::vector<std::string> bad = {
      R"({"key":"a","sta)", R"(["a"])", R"({"status":"ok"})", R"({"key":7})", "", good + good,
  };
  for (const char* file : {"results.jsonl", "visits.jsonl"}) {
    for (const std::string& line : bad) {
      SCOPED_TRACE(testing::Message() << file << ": " << line);
      const ScratchDir scratch;
      const std::string whole = good + "\n" + line + "\n" + good + "\n";
      const std::string path = scratch.file(file, whole);
      EXPECT_THAT(refusal(scratch.path()), HasSubstr(path + ":2:"));
      EXPECT_EQ(read_file(path), whole) << "a file it refuses must stay as it is";
    }
  }
}

TEST(StoreTest, RefusesASecondResultOfOneKey) {
  const ScratchDir scratch;
  fill(scratch.path());
  const std::string path = scratch.path() + "/results.jsonl";
  const std::string whole = read_file(path), twice = whole + whole.substr(0, whole.find('\n') + 1);
  write(path, twice);
  EXPECT_THAT(refusal(scratch.path()),
              AllOf(HasSubstr(path + ":3:"), HasSubstr("second result"), HasSubstr("\"a\"")));
  EXPECT_EQ(read_file(path), twice) << "a file it refuses must stay as it is";
  write(path, whole);
  EXPECT_EQ(refusal(scratch.path()), "");
}

TEST(StoreTest, RefusesAFileInPlaceOfADirectory) {
  const ScratchDir scratch;
  const std::string path = scratch.file("taken", "text\n");
  EXPECT_THAT(refusal(path), HasSubstr(path));
  EXPECT_THAT(refusal(path + "/below"), HasSubstr(path + "/below"));
  EXPECT_EQ(read_file(path), "text\n");
}

TEST(StoreTest, KeepsWhatWasResolvedOnce) {
  const ScratchDir scratch;
  {
    Store store(scratch.path(), "mine");
    EXPECT_TRUE(store.resolved("link").is_null());
    store.resolve("link", 0.1);
    store.resolve("fitted", {{"value", 1.0 / 3}});
  }
  Store store(scratch.path(), "mine");
  EXPECT_EQ(store.resolved("link").get<double>(), 0.1);
  EXPECT_EQ(store.resolved("fitted")["value"].get<double>(), 1.0 / 3);
  store.resolve("link", 0.2);
  EXPECT_EQ(store.resolved("link").get<double>(), 0.2);
  EXPECT_FALSE(fs::exists(scratch.path() + "/sweep.json.new"));
}

// A kill between writing the new state beside the old one and renaming it.
TEST(StoreTest, ShowsTheOldStateAfterAKillWhileWritingTheNew) {
  const ScratchDir scratch;
  Store(scratch.path(), "mine").resolve("link", 0.1);
  scratch.file("sweep.json.new", "{\"link\": 0.");
  Store store(scratch.path(), "mine");
  EXPECT_EQ(store.resolved("link").get<double>(), 0.1);
  store.resolve("rounds", 3);
  EXPECT_EQ(json::parse(read_file(scratch.path() + "/sweep.json")),
            json({{"name", "mine"}, {"link", 0.1}, {"rounds", 3}}));
}

// What was resolved once must not be resolved anew without a word.
TEST(StoreTest, RefusesAStateItDidNotWrite) {
  for (const char* contents : {"", "{\"name\": \"mi", "[]", "null", "{\"name\": 7}"}) {
    const ScratchDir scratch;
    const std::string path = scratch.file("sweep.json", contents);
    EXPECT_THAT(refusal(scratch.path()), HasSubstr(path)) << contents;
    EXPECT_EQ(read_file(path), contents);
  }
}

}  // namespace
}  // namespace spillway
